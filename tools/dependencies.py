"""What the package depends on: locks with hashes, an audit of known vulnerabilities, and a bill of materials.

    make lock      # requirements.lock and requirements-dev.lock, of what constraints.txt pins
    make audit     # known vulnerabilities of the locked versions, where the data is to be had
    make release   # wheel, source, bill of materials and checksums, in dist/

A lock holds one hash for each package: of the file that pip takes on this kind of machine (its first lines say which).
On another kind, ``make lock`` writes locks for that kind.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

REPOSITORY = Path(__file__).resolve().parents[1]
EXTRAS = {
    "requirements.lock": ("chem", "report", "tune", "tables", "sign", "cluster"),
    "requirements-dev.lock": ("chem", "report", "tune", "tables", "cluster", "bench", "dev", "docs", "release"),
}
RUNTIME = next(iter(EXTRAS))
BILL_OF_MATERIALS = "pointset.cdx.json"


class Locked(NamedTuple):
    """One package of a lock."""

    name: str
    version: str
    sha256: str


def resolved(extras: Iterable[str]) -> list[Locked]:
    """What pip would install for the package with these extras, with the hash of each file; installs nothing."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        _pip(
            *("install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)),
            *("-c", "constraints.txt", "torch==2.13.0", f".[{','.join(extras)}]"),
        )
        return locked_packages(json.loads(report.read_text()))


def locked_packages(report: dict[str, Any]) -> list[Locked]:
    """The packages of pip's report in alphabetical order, without the package itself, which is a folder."""
    packages = []
    for item in report["install"]:
        if "dir_info" in item["download_info"]:
            continue
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if "sha256" not in hashes:
            raise SystemExit(
                f"pip reports no SHA-256 for {name} {version}; use pip 23.2 or newer, and files with hashes"
            )
        packages.append(Locked(name.lower().replace("_", "-"), version.partition("+")[0], hashes["sha256"]))
    return sorted(packages)


def lock_text(packages: Iterable[Locked], extras: Iterable[str]) -> str:
    """The lock as pip reads it."""
    machine = f"{platform.system()} {platform.machine()}, Python {'.'.join(platform.python_version_tuple()[:2])}"
    lines = [
        f"# What pip installs for pointset[{','.join(extras)}] on {machine}.",
        "# Written by 'make lock'; torch is its CPU build. Use: pip install --require-hashes -r THIS_FILE",
    ]
    lines += [f"{name}=={version} --hash=sha256:{sha256}" for name, version, sha256 in packages]
    return "\n".join(lines) + "\n"


def read_lock(path: Path) -> list[Locked]:
    """The packages of a lock."""
    packages = []
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            pin, given = line.split()
            name, version = pin.split("==")
            packages.append(Locked(name, version, given.removeprefix("--hash=sha256:")))
    return packages


def lock() -> None:
    """Write all locks."""
    for name, extras in EXTRAS.items():
        packages = resolved(extras)
        (REPOSITORY / name).write_text(lock_text(packages, extras))
        print(f"{name}: {len(packages)} packages")


def audit() -> int:
    """Known vulnerabilities of the locked versions; 1 if there are any, 0 if none are known or no data can be had."""
    name = "requirements-dev.lock"
    if not (REPOSITORY / name).exists():
        raise SystemExit(f"audit: there is no {name}; write it with 'make lock'")
    if importlib.util.find_spec("pip_audit") is None:
        raise SystemExit("audit: pip-audit is not installed; 'make audit' installs it")
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", name]
    done = subprocess.run(
        [*command, "--format", "json", "--progress-spinner", "off"], cwd=REPOSITORY, capture_output=True, text=True
    )
    try:
        found = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        print(f"audit: nothing was audited, as the vulnerability data could not be had here ({reason})")
        return 0
    return audit_result(found, name)


def audit_result(found: list[dict[str, Any]], name: str) -> int:
    """What pip-audit found, in words."""
    audited = [item for item in found if "skip_reason" not in item]
    bad = [(item, hole) for item in audited for hole in item["vulns"]]
    for item, hole in bad:
        remedy = (
            f"update to {' or '.join(hole['fix_versions'])}" if hole["fix_versions"] else "no fixed version is known"
        )
        print(f"audit: {item['name']} {item['version']}: {hole['id']}; {remedy}")
    if not audited:
        print(
            f"audit: nothing was audited: there is no vulnerability data for the {len(found)} packages of {name} here"
        )
    else:
        print(f"audit: {len(audited)} of {len(found)} packages of {name} audited, {len(bad)} known vulnerabilities")
    return 1 if bad else 0


def release() -> None:
    """Wheel and source distribution, the bill of materials of what they need, and the checksums of all, in dist/."""
    folder = REPOSITORY / "dist"
    for old in folder.glob("*"):
        old.unlink()
    _run(sys.executable, "-m", "hatchling", "build", "-d", str(folder))
    _run(
        *(sys.executable, "-m", "cyclonedx_py", "requirements", RUNTIME, "--pyproject", "pyproject.toml"),
        *("--output-reproducible", "--of", "JSON", "-o", str(folder / BILL_OF_MATERIALS)),
    )
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def _pip(*arguments: str) -> None:
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr.strip()[-2000:]}")


def main() -> int:
    """One of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("lock", "audit", "release"))
    what = parser.parse_args().what
    if what == "audit":
        return audit()
    (lock if what == "lock" else release)()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
