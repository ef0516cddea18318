"""Compiling the kernels on first use: whatever goes wrong costs a line, never a run."""

from __future__ import annotations

import ctypes
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from pointset.errors import SpecError
from pointset.native import build

KERNELS = """
#ifdef _OPENMP
#include <omp.h>
#endif
extern "C" int pointset_abi() { return ABI; }
extern "C" int is_nan(float value) { return value != value; }
extern "C" double sum_to(long count, int threads) {
  double sum = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : sum)
  for (long i = 1; i <= count; ++i) sum += i;
  return sum;
}
""".replace("ABI", str(build.ABI))

needs_compiler = pytest.mark.skipif(build.find_compiler() is None, reason="there is no C++ compiler here")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small kernels, and an empty cache."""
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(build.VARIABLE, raising=False)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    path = tmp_path / "source" / "kernels.cpp"
    path.parent.mkdir()
    path.write_text(KERNELS)
    return path


def sum_to(library: ctypes.CDLL | None, count: int, threads: int = 1) -> float:
    assert library is not None
    library.sum_to.restype = ctypes.c_double
    return float(library.sum_to(ctypes.c_long(count), threads))


def kept(tmp_path: Path, suffix: str) -> Path:
    (path,) = (tmp_path / "cache" / "native").glob(f"kernels-*.{suffix}")
    return path


def use_script(monkeypatch: pytest.MonkeyPatch, path: Path, *lines: str) -> None:
    """Let a shell script be the compiler."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


def in_new_process(source: Path, *commands: str) -> subprocess.Popen[str]:
    script = "\n".join(
        ["from pathlib import Path", "from pointset.native import build", f"source = Path({str(source)!r})", *commands]
    )
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )


@needs_compiler
def test_first_use_compiles_and_says_so_in_one_line(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = build.load(source)
    said = capfd.readouterr()
    assert sum_to(loaded.library, 100) == 5050
    assert (
        loaded.status.active and loaded.status.text.startswith("native kernels (") and "float32" in loaded.status.text
    )
    assert said.err.startswith("compiling pointset's kernels for this processor, once: ") and said.err.count("\n") == 1
    assert said.out == ""  # JSON may be written there


@needs_compiler
def test_later_processes_find_it_in_the_cache(source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = build.load(source)
    written = kept(tmp_path, "so").stat().st_mtime_ns
    capfd.readouterr()
    script = "print(build.expected(source).text); print(build.load(source).library.pointset_abi())"
    out, err = in_new_process(source, script).communicate(timeout=60)
    assert out.splitlines() == [first.status.text, str(build.ABI)] and err == ""
    assert kept(tmp_path, "so").stat().st_mtime_ns == written


@needs_compiler
def test_status_neither_compiles_nor_imports_torch(source: Path, tmp_path: Path) -> None:
    script = "import sys; print(build.expected(source)); print(build.status().text); print('torch' in sys.modules)"
    out, err = in_new_process(source, script).communicate(timeout=60)
    assert "compiled on first use" in out.splitlines()[0] and out.splitlines()[-1] == "False" and err == ""
    assert not (tmp_path / "cache").exists()


@needs_compiler
def test_two_processes_at_once(source: Path) -> None:
    script = "print(build.load(source).library.pointset_abi())"
    both = [in_new_process(source, script) for _ in range(2)]
    results = [process.communicate(timeout=120) for process in both]
    assert [out for out, _ in results] == [f"{build.ABI}\n"] * 2
    assert sum(err.count("compiling") for _, err in results) == 1  # the other waited


@needs_compiler
def test_threads_share_one_library(
    source: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "SOURCE", source)
    monkeypatch.setattr(build, "_loaded", None)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: build.library(), range(4)))
    assert len(found) == 1 and sum_to(found.pop(), 10) == 55
    assert build.status().active and capfd.readouterr().err.count("compiling") == 1


@needs_compiler
@pytest.mark.parametrize("damage", ["truncated", "another file", "record lost", "library lost"])
def test_a_damaged_library_is_compiled_again(
    source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], damage: str
) -> None:
    build.load(source)
    library, record = kept(tmp_path, "so"), kept(tmp_path, "json")
    whole = library.read_bytes()
    library.unlink()  # mapped into this process: writing into it would damage the process
    if damage == "truncated":
        library.write_bytes(whole[: len(whole) // 2])
    elif damage == "another file":
        library.write_text("no library")
    elif damage == "record lost":
        record.write_text("{")
    capfd.readouterr()
    assert sum_to(build.load(source).library, 100) == 5050
    assert "was damaged" in capfd.readouterr().err
    assert library.stat().st_size == len(whole)


@needs_compiler
def test_after_a_kill_the_next_process_compiles_and_tidies_up(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = build.find_compiler()
    assert compiler is not None
    begun = tmp_path / "begun"
    use_script(
        monkeypatch,
        tmp_path / "compiler",
        f'[ "$1" = --version ] || [ -e {begun} ] || {{ touch {begun}; kill -9 $PPID; exit 1; }}',
        f'exec {compiler.command[0]} "$@"',
    )
    killed = in_new_process(source, "build.load(source)")
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL and begun.exists()
    assert sum_to(build.load(source).library, 100) == 5050
    assert {path.suffix for path in (tmp_path / "cache" / "native").iterdir()} == {".so", ".json", ".lock"}


@needs_compiler
def test_another_interface_is_not_used(source: Path, tmp_path: Path) -> None:
    source.write_text(KERNELS.replace(f"return {build.ABI}", f"return {build.ABI + 1}"))
    loaded = build.load(source)
    assert loaded.library is None
    assert f"interface {build.ABI + 1}, and {build.ABI} is expected" in loaded.status.text


@needs_compiler
def test_a_changed_source_is_compiled(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build.load(source)
    source.write_text(KERNELS.replace("sum += i", "sum += 2 * i"))
    assert sum_to(build.load(source).library, 100) == 10100
    assert capfd.readouterr().err.count("compiling") == 2


@needs_compiler
def test_a_source_that_does_not_compile_costs_one_line_once(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source.write_text("int broken( {\n")
    loaded = build.load(source)
    said = capfd.readouterr().err
    assert loaded.library is None and not loaded.status.active
    assert loaded.status.text.startswith("torch (the kernels did not compile: ") and "error" in loaded.status.text
    assert "error" in kept(tmp_path, "log").read_text() and str(kept(tmp_path, "log")) == loaded.status.log
    assert str(tmp_path) not in loaded.status.text and loaded.status.log in said  # the text is published with results
    assert said.count("\n") == 1 and "Torch computes instead" in said

    start = time.monotonic()
    assert build.load(source).status == build.expected(source) == loaded.status
    assert capfd.readouterr().err == "" and time.monotonic() - start < 1

    monkeypatch.setenv(build.VARIABLE, "rebuild")
    build.load(source)
    assert "did not compile" in capfd.readouterr().err


@needs_compiler
def test_a_passing_failure_is_not_remembered(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use_script(
        monkeypatch,
        tmp_path / "compiler",
        '[ "$1" = --version ] && echo "c++ 1.0" && exit',
        'echo "No space left on device" >&2; exit 1',
    )
    assert "No space left on device" in build.load(source).status.text
    assert "compiled on first use" in build.expected(source).text


def test_no_compiler(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    assert build.expected(source).text.startswith("torch (no C++ compiler: install g++")
    assert build.load(source).library is None
    assert capfd.readouterr().err.startswith("pointset: no C++ compiler: install g++")
    assert build.load(source).status.text.startswith("torch (no C++ compiler")
    assert capfd.readouterr().err == ""  # said once


@needs_compiler
def test_a_node_without_a_compiler_uses_what_another_compiled(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.load(source)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "")
    assert build.expected(source).active
    assert sum_to(build.load(source).library, 10) == 55


@needs_compiler
def test_a_missing_cxx_falls_back(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O1")
    if build.find_compiler() is None:
        pytest.skip("only CXX names a compiler here")
    assert build.load(source).library is not None


@needs_compiler
@pytest.mark.parametrize("rejected", ["-march=native", "-fopenmp"])
def test_a_flag_that_the_compiler_rejects_is_left_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rejected: str
) -> None:
    compiler = build.find_compiler()
    assert compiler is not None
    use_script(
        monkeypatch,
        tmp_path / "compiler",
        f'case " $* " in *" {rejected} "*) echo "error: {rejected}" >&2; exit 1;; esac',
        f'exec {compiler.command[0]} "$@"',
    )
    loaded = build.load(source)
    assert sum_to(loaded.library, 100, threads=2) == 5050
    assert ("one thread" in loaded.status.text) == (rejected == "-fopenmp")


@needs_compiler
def test_a_cache_that_cannot_be_written(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "file"))  # root could write to a folder that is read-only
    loaded = build.load(source)
    said = capfd.readouterr().err
    assert sum_to(loaded.library, 100) == 5050
    assert "for this process only" in said and "POINTSET_CACHE" in said and said.count("\n") == 1


@needs_compiler
@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to a read-only folder")
def test_a_read_only_cache(source: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cache").mkdir(mode=0o555)
    assert sum_to(build.load(source).library, 100) == 5050
    assert "for this process only" in capfd.readouterr().err


@needs_compiler
def test_a_folder_mounted_noexec(
    source: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*arguments: object, **options: object) -> ctypes.CDLL:
        raise OSError("kernels.so: failed to map segment from shared object")  # as the loader says it

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    loaded = build.load(source)
    assert loaded.library is None and "noexec" in loaded.status.text and "POINTSET_CACHE" in loaded.status.text
    assert capfd.readouterr().err.count("\n") == 1


def test_no_folder_at_all(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    loaded = build.load(source)
    assert loaded.library is None and loaded.status.text.startswith("torch (")


def test_off(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.VARIABLE, "0")
    assert build.load(source) == (None, (False, "torch (POINTSET_NATIVE=0)", ""))
    assert build.expected(source).text == "torch (POINTSET_NATIVE=0)"
    assert not (tmp_path / "cache").exists()


def test_a_value_that_is_not_known(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(build.VARIABLE, "yes")
    for ask in (build.load, build.expected):
        with pytest.raises(SpecError, match=r"POINTSET_NATIVE is 'yes'; expected 0 .*, 1 .* or rebuild"):
            ask(source)


def test_another_architecture(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    loaded = build.load(source)
    assert loaded.library is None and "x86-64 and aarch64" in loaded.status.text


def test_a_source_that_is_not_there(source: Path) -> None:
    loaded = build.load(source.with_name("lost.cpp"))
    assert loaded.library is None and "lost.cpp cannot be read" in loaded.status.text


@needs_compiler
def test_a_nan_stays_one(source: Path) -> None:
    library = build.load(source).library
    assert library is not None
    assert [library.is_nan(ctypes.c_float(value)) for value in (math.nan, math.inf, 1.0)] == [1, 0, 0]


@needs_compiler
def test_denormal_numbers_survive(source: Path) -> None:
    smallest = np.float32(2**-149)
    assert sum_to(build.load(source).library, 10) == 55
    assert smallest * np.float32(1) == smallest > 0
    assert (torch.tensor(2.0**-140) / 2).item() == 2.0**-141


@needs_compiler
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of loaded libraries")
def test_one_openmp_runtime_for_torch_and_the_kernels(source: Path) -> None:
    script = (
        "library = build.load(source).library; library.sum_to(100, 2); import torch; torch.randn(999, 999).sigmoid()",
        "names = {line.split()[-1] for line in open('/proc/self/maps')}",
        "print(len([name for name in names if name.rsplit('/')[-1].startswith(('libgomp', 'libomp', 'libiomp'))]))",
    )
    out, err = in_new_process(source, *script).communicate(timeout=60)
    assert out == "1\n", err


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_computes_with_one_thread(source: Path) -> None:
    script = (
        "import os, torch; library = build.load(source).library; torch.set_num_threads(2)",
        "library.sum_to(100, build.usable_threads(2))",
        "child = os.fork()",
        "if not child: library.sum_to(100, build.usable_threads(2)); os._exit(build.usable_threads(2))",
        "print(build.usable_threads(2), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    )
    out, err = in_new_process(source, *script).communicate(timeout=60)  # with two threads the child would never end
    assert out == "2 1\n", err


@needs_compiler
def test_workers_are_quiet(source: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert build.load(source).library is not None
    assert capfd.readouterr().err == ""
