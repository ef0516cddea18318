"""How long a person waits for `pointset --help` and the help of each command: whole processes, medians.

python benchmarks/startup.py [--repeats 9] [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from common import machine, report

HELPS = (["--help"], ["convert", "--help"], ["inspect", "--help"], ["datasets", "--help"], ["datasets"])


def seconds(arguments: list[str]) -> float:
    start = time.perf_counter()
    program = [sys.executable, "-c", "from pointset.cli.main import run; run()", *arguments]
    subprocess.run(program, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    figures: dict[str, object] = {
        f"pointset {' '.join(command)}, seconds (median of {arguments.repeats})": round(
            statistics.median(seconds(command) for _ in range(arguments.repeats)), 2
        )
        for command in HELPS
    }
    report("Start-up of the command line", {**figures, **machine(version("torch"))}, arguments.json)


if __name__ == "__main__":
    main()
