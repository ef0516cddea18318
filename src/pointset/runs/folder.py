"""The folder of a run: what lies where, and that no two runs ever share one (:class:`RunFolder`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pointset.errors import DiskSpaceError, PointsetError, SpecError
from pointset.files import check_regular, naming, try_lock

_LOCK = ".lock"


class RunFolder:
    """Names in a run's folder, which :meth:`claim` makes."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.recipe = self.path / "recipe.yaml"
        self.environment = self.path / "environment.json"
        self.split = self.path / "split.json"
        self.metrics = self.path / "metrics.csv"
        self.last_checkpoint = self.path / "checkpoints" / "last.safetensors"
        self.best_checkpoint = self.path / "checkpoints" / "best.safetensors"
        self.predictions = self.path / "predictions.csv"
        self.examples = self.path / "examples.json"
        self.bundle = self.path / "bundle"
        self.result = self.path / "result.json"
        self.report = self.path / "report.html"
        self.members = self.path / "members"  # of an ensemble: a run folder for each

    @property
    def has_run(self) -> bool:
        """Whether a run was started here."""
        return self.recipe.exists()

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end: the result is written last."""
        return self.result.exists()

    @contextmanager
    def claim(self, *, resume: bool) -> Iterator[None]:
        """Hold the folder inside; nobody else can. A new one is removed again where the run never started.

        Raises:
            SpecError: it holds something else, or a run that was not to be resumed.
            PointsetError: another process is at work in it.
            OSError: it cannot be made or written to.
        """
        self._check_content(resume)
        is_new = not self.path.exists()
        self.last_checkpoint.parent.mkdir(parents=True, exist_ok=True)
        with _held(self.path / _LOCK, self.path):
            try:
                self._check_content(resume)  # nobody came first
                yield
            finally:  # only who holds the folder may remove it: another may have started in it since it was looked at
                if is_new and not self.has_run:  # it failed before it started
                    shutil.rmtree(self.path, ignore_errors=True)

    def _check_content(self, resume: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise SpecError(f"{self.path} is a file; expected a folder for the run. Choose another with --run-dir")
        if self.has_run and not resume:
            state = "a finished run" if self.is_finished else "a run that is not finished"
            or_resume = "" if self.is_finished else ", or resume it with --resume"
            raise SpecError(
                f"{self.path} already holds {state}; two runs never share a folder. Choose another with "
                f"--run-dir{or_resume}"
            )
        if not self.has_run and self.path.is_dir():
            others = [item.name for item in self.path.iterdir() if item.name not in (_LOCK, "checkpoints")]
            if others:
                raise SpecError(
                    f"{self.path} holds other files ({', '.join(sorted(others)[:3])}…) and no run; "
                    "expected an empty or a new folder. Choose another with --run-dir"
                )


def check_space(folder: Path, needed: int) -> None:
    """Refuse to start where the disk has too little space for what a run writes."""
    absolute = folder.absolute()  # of several processes only the first makes it, perhaps later than this one asks
    free = shutil.disk_usage(next(place for place in (absolute, *absolute.parents) if place.exists())).free
    if free < needed:
        raise DiskSpaceError(
            f"the disk of {folder} has {free / 1e6:,.0f} MB left; the run writes up to {needed / 1e6:,.0f} MB. "
            "Free some, or choose another folder with --run-dir"
        )


@contextmanager
def _held(lock: Path, folder: Path) -> Iterator[None]:
    """No other process is inside at the same time; the file says which one is, for the message to the others."""
    check_regular(lock)
    with lock.open("a+") as file:
        if not try_lock(file):
            who = ""
            with suppress(OSError):  # Windows lets nobody else read a locked file
                file.seek(0)
                who = file.read().strip()
            raise PointsetError(
                f"another process{f' ({who})' if who else ''} is training in {folder}; two runs never share a folder. "
                "Choose another with --run-dir"
            )
        with naming(lock):
            file.seek(0)
            file.truncate()
            file.write(f"process {os.getpid()}")
            file.flush()
        yield
