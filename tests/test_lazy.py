"""Packages whose names are imported on first use: every name is there, and no other."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["", ".datasets", ".datasets.own", ".datasets.splits", ".paper", ".paper.tables", ".points", ".prediction",
            ".reports", ".runs", ".training", ".tuning"]  # fmt: skip


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_is_there(package: str) -> None:
    module = importlib.import_module(f"pointset{package}")
    assert len(module.__all__) > 3
    for name in module.__all__:
        assert getattr(module, name) is not None
    assert set(module.__all__) <= set(dir(module))


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'pointset\.runs' has no attribute 'nothing'"):
        importlib.import_module("pointset.runs").nothing  # noqa: B018


def test_the_heavy_libraries_wait() -> None:
    code = "import sys, pointset, pointset.runs, pointset.training; print(sorted({'torch', 'numpy'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
