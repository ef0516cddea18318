"""No dataset's name stands in the code outside ``pointset.datasets``: nothing else may branch on one (design, 2)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pointset
from pointset.datasets import loading as catalogue

PACKAGE = Path(pointset.__file__).parent
WORDS = {"counting", "proteins"}  # names that are also words of English, and may be those of variables


def names_in(source: str) -> Iterator[tuple[int, str]]:
    """Lines with a dataset's name: as a whole string, or as an identifier."""
    datasets = {name.lower() for name in catalogue.names()}
    identifiers = {name.replace("-", "_") for name in datasets - WORDS} | {name.replace("-", "") for name in datasets}
    identifiers -= WORDS
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.strip().lower() in datasets:
            yield node.lineno, node.value
        for field in ("id", "attr", "arg", "name"):
            value = getattr(node, field, None)
            if isinstance(value, str) and value.lower() in identifiers:
                yield getattr(node, "lineno", 0), value


def test_no_code_outside_the_datasets_knows_one_by_name() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if "datasets" not in path.relative_to(PACKAGE).parts]
    assert len(files) > 20
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(files)
        for line, name in names_in(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("name", catalogue.names())
def test_a_branch_on_a_name_would_be_found(name: str) -> None:
    assert list(names_in(f"def f(dataset):\n    if dataset == {name!r}:\n        return 1\n")) == [(2, name)]
    assert list(names_in(f"settings = {{{name.upper()!r}: 3}}")) == [(1, name.upper())]
    if name not in WORDS:
        assert list(names_in(f"{name.replace('-', '_').upper()} = 1"))


def test_prose_is_allowed() -> None:
    assert not list(names_in('"""Proteins, counting, and ZINC in a sentence."""\ncounting = proteins = 1\n'))
