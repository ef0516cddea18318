"""What every benchmark prints: one table of named figures, the machine's kind and the date; JSON on request."""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from pathlib import Path


def machine(torch_version: str) -> dict[str, object]:
    """The kind of machine, without anything that names it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "machine": f"{cores} cores, {platform.machine()}, CPU only",
        "python, torch": f"{platform.python_version()}, {torch_version}",
        "date": date.today().isoformat(),
    }


def report(title: str, figures: dict[str, object], path: Path | None) -> None:
    """Print the figures; write them to ``path`` as JSON."""
    width = max(len(name) for name in figures)
    print(f"\n{title}")
    for name, value in figures.items():
        print(f"  {name:<{width}}  {value}")
    if path is not None:
        path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
