"""How long a person waits for `pointset --help`, the help of each command, and for `pointset.load` of a trained model.

Whole processes, medians.

python benchmarks/startup.py [--repeats 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from common import machine, report

HELPS = (
    ["--help"],
    ["convert", "--help"],
    ["inspect", "--help"],
    ["datasets", "--help"],
    ["train", "--help"],
    ["datasets"],
    ["recipes"],
)
COMMAND = "from pointset.cli.main import run; run()"
LOADING = "import sys, pointset; pointset.load(sys.argv[1])"


def seconds(program: str, *arguments: str) -> float:
    """Of a whole process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", program, *arguments], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def write_model(path: Path) -> None:
    """A bundle with a model of the size of the paper's for ZINC."""
    import pointset
    from pointset.datasets.card import Card, Level, Metric, Target, Task
    from pointset.training.bundle import write_bundle

    targets = (Target("y"),)
    card = Card(
        "model", "Model", "", Level.GRAPH, Task.REGRESSION, targets, Metric.MAE, "none", node=pointset.Categories(28)
    )
    model = pointset.PointModel.from_preset("pst-released", node=card.node, dim=80, layers=6)
    write_bundle(path, model, card)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "bundle")
        programs = {f"pointset {' '.join(words)}": (COMMAND, *words) for words in HELPS}
        programs |= {
            "pointset.load(bundle)": (LOADING, str(Path(folder) / "bundle")),
            "of which import torch": ("import torch",),
        }
        figures: dict[str, object] = {
            f"{name}, seconds (median of {arguments.repeats})": round(
                statistics.median(seconds(*program) for _ in range(arguments.repeats)), 2
            )
            for name, program in programs.items()
        }
    report("Start-up of the command line", {**figures, **machine(version("torch"))}, arguments.json)


if __name__ == "__main__":
    main()
