"""Locks hold every dependency at the pinned version, with a hash; the audit says what it could not audit."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # scripts, not a package

from dependencies import EXTRAS, REPOSITORY, RUNTIME, audit, audit_result, lock_text, locked_packages, read_lock


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    rows = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonical(name): version for name, version in rows}


def required(extras: tuple[str, ...]) -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    return {canonical(re.split(r"[^\w.-]", line)[0]) for line in wanted} - {"pointset"}


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_pins_what_the_constraints_pin_and_nothing_is_missing(name: str) -> None:
    packages = read_lock(REPOSITORY / name)
    for package in packages:
        assert pins()[canonical(package.name)] == package.version, package.name
        assert re.fullmatch("[0-9a-f]{64}", package.sha256), package.name
    assert required(EXTRAS[name]) <= {canonical(package.name) for package in packages}


def test_the_lock_of_users_is_part_of_that_of_developers() -> None:
    everything = [set(read_lock(REPOSITORY / name)) for name in EXTRAS]
    assert everything[0] < everything[1]


def test_what_pip_reports_becomes_a_lock_and_is_read_back(tmp_path: Path) -> None:
    report = {
        "install": [
            installed("torch", "2.13.0+cpu", {"archive_info": {"hashes": {"sha256": "a" * 64}}}),
            installed("Ast_Serialize", "1.0", {"archive_info": {"hashes": {"sha256": "b" * 64}}}),
            installed("pointset", "0.1.0", {"dir_info": {}}),
        ]
    }
    packages = locked_packages(report)
    assert [package.name for package in packages] == ["ast-serialize", "torch"]
    assert packages[1].version == "2.13.0"  # one for all builds: the hash says which
    (tmp_path / "lock").write_text(lock_text(packages, EXTRAS[RUNTIME]))
    assert read_lock(tmp_path / "lock") == packages


def test_a_file_without_a_hash_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"no SHA-256 for numpy 2\.0"):
        locked_packages({"install": [installed("numpy", "2.0", {"archive_info": {}})]})


def test_an_audit_without_its_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says nothing of the packages, and must not look as if there were no data on them."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(SystemExit, match="pip-audit is not installed"):
        audit()


def test_the_audit_fails_on_a_vulnerability_and_says_what_was_not_audited(capsys: pytest.CaptureFixture[str]) -> None:
    unknown = {"name": "torch", "skip_reason": "not found"}
    holed = {"name": "idna", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.7"]}]}
    clean = {"name": "tqdm", "version": "4.0", "vulns": []}
    assert audit_result([unknown], "a.lock") == 0
    assert "nothing was audited" in capsys.readouterr().out
    assert audit_result([unknown, clean], "a.lock") == 0
    assert "1 of 2 packages of a.lock audited, 0 known" in capsys.readouterr().out
    assert audit_result([unknown, clean, holed], "a.lock") == 1
    assert "idna 1.0: PYSEC-1; update to 3.7" in capsys.readouterr().out


def installed(name: str, version: str, info: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "version": version}, "download_info": info}
