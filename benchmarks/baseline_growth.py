"""How a training step grows with the graphs: PST, PSDS and baselines of one size, on random graphs of n nodes.

    python benchmarks/baseline_growth.py [--json FILE] [--models …] [--sizes 16 32 64 128 256] [--repeats 3]

Every model is made in a process of its own, with about as many parameters; in each round one after the other trains on
the same graphs while the others wait. One thread; the time is the processor's. The last columns are the powers of n by
which time and memory grow over the last three sizes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pointset.paper.cost import Growth, growth
from pointset.paper.tables.result import Cell, Column, Row
from result_tables import write_table

MODELS = ("pst", "psds", "ppgn", "graphormer", "gps", "gin")


def row_of(grown: Growth) -> Row:
    """A model."""
    cells = {f"time-{step.nodes}": Cell(mean=step.cpu_seconds) for step in grown.steps}
    cells |= {f"memory-{step.nodes}": Cell(mean=step.peak_memory_bytes) for step in grown.steps}
    cells |= {"time": Cell(mean=grown.time_exponent), "memory": Cell(mean=grown.memory_exponent)}
    return Row(title=grown.model, source="ours", model=grown.model, parameters=grown.parameters, cells=cells)


def columns_of(sizes: list[int]) -> list[Column]:
    """Time and memory at each size, then the exponents."""
    times = [Column(key=f"time-{n}", title=f"n = {n}", factor=1000, digits=0, unit="ms") for n in sizes]
    memory = [Column(key=f"memory-{n}", title=f"n = {n}", factor=1e-6, digits=0, unit="MB") for n in sizes]
    powers = [Column(key=key, title=f"power of n, {key}", digits=1) for key in ("time", "memory")]
    return [*times, *memory, *powers]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--sizes", nargs="+", type=int, default=[16, 32, 64, 128, 256])
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    start = time.monotonic()
    found = growth(arguments.models, arguments.sizes, repeats=arguments.repeats)
    rows = [row_of(grown) for grown in found]
    for row in rows:
        print(f"{row.title:<12}", *(f"{key}={cell.mean}" for key, cell in row.cells.items()))
    if arguments.json is not None:
        write_table(
            arguments.json,
            "How a training step grows with the graphs",
            columns_of(arguments.sizes),
            rows,
            scope="One training step on four random graphs of n nodes with mean degree 3, four layers and about "
            "500,000 parameters each, one thread, processor time; medians of the rounds.",
            seconds=time.monotonic() - start,
        )


if __name__ == "__main__":
    main()
