"""How easy the package is to walk: its size in files and lines, and how many files three everyday walks pass through.

A walk runs a command with a tracer on: a file counts when one of its functions is called (importing it does not count),
a hop is a pair of files of which one calls the other. Processes that the command starts are traced, too.

    make house                        # sizes and all walks (a minute or two; the third walk wants ../shared/data)
    python benchmarks/house.py --sizes
    python benchmarks/house.py --walk train --files    # which files, with the number of functions called in each
"""

from __future__ import annotations

import argparse
import ast
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "src" / "pointset"
LONGEST_FILE, LONGEST_FUNCTION = 600, 60
GOALS = {"files": 210, "lines": 43_000, "line-weighted median": 220}

TRACER = """
import os, sys, threading

PACKAGE, SEEN = os.environ["POINTSET_WALK_PACKAGE"] + os.sep, set()


def trace(frame, event, argument):
    path = frame.f_code.co_filename
    if event != "call" or frame.f_code.co_name == "<module>":
        return
    if not path.startswith(PACKAGE) or not path.endswith(".py"):
        return
    caller = frame.f_back
    while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
        caller = caller.f_back
    step = (caller.f_code.co_filename if caller else "", path, frame.f_code.co_qualname)
    if step not in SEEN and not while_importing(frame):
        SEEN.add(step)
        with open(os.environ["POINTSET_WALK_STEPS"], "a") as file:
            file.write("\\t".join(step) + "\\n")


def while_importing(frame):
    # constants and decorators of a module of the package are not part of a walk
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_back and "importlib" in frame.f_back.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


sys.setprofile(trace)
threading.setprofile(trace)
"""

MOLECULES = "smiles,value\n" + "".join(f"{'C' * size}{end},{size}\n" for size in range(1, 9) for end in "CNOF")


class Walk(NamedTuple):
    words: list[str]
    goal: int
    title: str
    needs_data: bool = False


WALKS = {
    "train": Walk(
        ["-m", "pointset.cli.main", "train", "molecules", "dataset.file=molecules.csv", "model.dim=8", "model.layers=2",
         "trainer.epochs=2", "--run-dir", "run", "--device", "cpu"],
        70,
        "train a molecule table to its report",
    ),
    "forward": Walk(
        ["-c", "import networkx as nx, pointset; points = pointset.to_points(nx.karate_club_graph()); "
               "pointset.PointModel.from_preset('pst', dim=8, layers=2)([points])"],
        18,
        "to_points and a forward pass",
    ),
    "reproduce": Walk(
        ["-m", "pointset.cli.main", "reproduce", "zinc", "--budget", "small", "--models", "pst", "--run-dir", "tables"],
        70,
        "reproduce zinc",
        needs_data=True,
    ),
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="no walks")
    parser.add_argument("--walk", choices=WALKS, help="only this walk, no sizes")
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    parser.add_argument("--package", type=Path, default=PACKAGE, help="the package to look at (another checkout's)")
    options = parser.parse_args()
    package = options.package.resolve()
    if not options.walk:
        print_sizes(package)
    for name, walk in WALKS.items():
        if not options.sizes and options.walk in (None, name):
            print_walk(walk, package, files=options.files)


def print_sizes(package: Path) -> None:
    lines = {path: len(path.read_text().splitlines()) for path in sorted(package.rglob("*.py"))}
    total = sum(lines.values())
    figures = {"files": len(lines), "lines": total, "line-weighted median": weighted_median(list(lines.values()))}
    for name, figure in figures.items():
        side = "at least" if "median" in name else "at most"
        print(f"{name:24} {figure:8,}   (goal: {side} {GOALS[name]:,})")
    print(f"{'median file':24} {statistics.median(lines.values()):8,.0f}")
    longest = {str(path.relative_to(package)): count for path, count in lines.items() if count > LONGEST_FILE}
    print(f"{f'files above {LONGEST_FILE} lines':24} {len(longest):8}   {longest or ''}")
    functions = dict(long_functions(lines, package))
    print(f"{f'functions above {LONGEST_FUNCTION}':24} {len(functions):8}   {functions or ''}")
    for folder, count in sorted(
        Counter(path.relative_to(package).parts[0] for path in lines if path.parent != package).items()
    ):
        inside = sum(size for path, size in lines.items() if path.relative_to(package).parts[0] == folder)
        print(f"  {folder:22} {count:8} files {inside:8,} lines")


def weighted_median(counts: list[int]) -> int:
    """The length of the file in which the middle line of the whole package stands."""
    passed = 0
    for count in sorted(counts):
        passed += count
        if 2 * passed >= sum(counts):
            return count
    return 0


def long_functions(paths: dict[Path, int], package: Path) -> Iterator[tuple[str, int]]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    yield f"{path.relative_to(package)}:{node.name}", length


def print_walk(walk: Walk, package: Path, *, files: bool) -> None:
    data = Path(os.environ.get("POINTSET_DATA") or REPOSITORY.parent / "shared" / "data")
    if walk.needs_data and not data.exists():
        print(f"{walk.title}: skipped, there is no {data}")
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sitecustomize.py").write_text(TRACER)
        Path(folder, "molecules.csv").write_text(MOLECULES)
        steps = Path(folder, "steps")
        steps.touch()
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([folder, str(package.parent)]),
            "POINTSET_WALK_PACKAGE": str(package),
            "POINTSET_WALK_STEPS": str(steps),
            "POINTSET_DATA": str(data),
            "POINTSET_CACHE": str(Path(folder, "cache")),
            "OMP_NUM_THREADS": "1",
        }
        run = [sys.executable, *walk.words]
        done = subprocess.run(run, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{walk.title} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        taken = [line.split("\t") for line in steps.read_text().splitlines()]
    passed = Counter(path for path, _ in {(step[1], step[2]) for step in taken})
    hops = {(step[0], step[1]) for step in taken if step[0] and step[0] != step[1]}
    print(f"{walk.title}: {len(passed)} files (goal: at most {walk.goal}), {len(hops)} hops")
    if files:
        for path, count in sorted(passed.items()):
            print(f"  {Path(path).relative_to(package)!s:45} {count:3} functions")


if __name__ == "__main__":
    main()
