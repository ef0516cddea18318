"""The kernels of kernels.cpp: compiled on first use for the processor at hand, kept in the cache, loaded with ctypes.

Whatever goes wrong on the way (no compiler, a source that it rejects, a cache that cannot be written) costs one line
on stderr and never a run: torch computes the same numbers. Three traps decide how the library is built:

- ``-ffast-math`` would forget that NaN exists, by which a run that diverges is noticed; and, given to the linker, gcc
  would add start-up code that flushes denormal numbers to zero in the whole process.
- A second OpenMP runtime beside torch's would have a second pool of threads, which gains nothing while torch's
  threads still spin. The library is linked to none: its symbols are found in the runtime that torch has loaded.
- Loading a truncated library can end the process (SIGBUS), so its checksum is compared before.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from pointset.errors import FileFormatError, PointsetError, SpecError
from pointset.files import cache_folder, read_json, replacing, write_json
from pointset.text import clipped, duration, printable

ABI = 1  # what pointset_abi() of kernels.cpp returns; both change when a function's arguments do
SOURCE = Path(__file__).with_name("kernels.cpp")
VARIABLE = "POINTSET_NATIVE"

_FLAGS = ("-O3", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-std=c++17")
_WHERE_ACCEPTED = ("-march=native", "-fopenmp")
_PROBE = """
extern "C" int pointset_probe(int count) {
  int sum = 0;
#pragma omp parallel for reduction(+ : sum)
  for (int i = 0; i < count; ++i) sum += i;
  return sum;
}
"""
_ARCHITECTURES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}
_INSTALL = "no C++ compiler: install g++ (Debian and Ubuntu: apt install g++), or name one in CXX"
_PASSING = ("No space left", "Killed signal", "out of memory", "Cannot allocate")  # another time it may succeed
_LIBRARY = "kernels.so"
_COMPILER_SECONDS = 900  # a compiler that hangs must not hang a run


class Status(NamedTuple):
    """Which path computes: ``native kernels (g++ 12.2, AVX-512, float32)``, or ``torch (why)``; no paths of files."""

    active: bool
    text: str
    log: str = ""  # the file with all that the compiler said, where it failed


class Loaded(NamedTuple):
    """The kernels, or None where torch is to be used."""

    library: ctypes.CDLL | None
    status: Status


class Compiler(NamedTuple):
    """A C++ compiler of this machine."""

    command: tuple[str, ...]
    version: str  # the first line of --version

    @property
    def name(self) -> str:
        """``g++ 12.2``; g++ names its version at the end of the line, clang after a word."""
        clang = "clang" in self.version
        found = re.search(r"version (\d+\.\d+)" if clang else r"(\d+\.\d+)\S*$", self.version)
        return f"{'clang' if clang else 'g++'} {found[1] if found else ''}".strip()


class _BuildError(Exception):
    """The kernels cannot be had; the message is what users read."""

    def __init__(self, reason: str, *, log: str = "", lasting: bool = True):
        super().__init__(reason)
        self.log = log
        self.lasting = lasting


_loading = threading.Lock()
_loaded: Loaded | None = None
_forked = False


def library() -> ctypes.CDLL | None:
    """The compiled kernels, or None where torch is to be used; built on first use.

    Raises:
        SpecError: ``POINTSET_NATIVE`` is none of its values.
    """
    global _loaded
    with _loading:
        if _loaded is None:
            _loaded = load(SOURCE)
    return _loaded.library


def status() -> Status:
    """Which path computes; neither compiles nor imports torch.

    Raises:
        SpecError: ``POINTSET_NATIVE`` is none of its values.
    """
    return _loaded.status if _loaded is not None else expected(SOURCE)


def usable_threads(wanted: int) -> int:
    """How many threads a kernel may use here: one in a forked process, otherwise as many as wanted.

    OpenMP's threads do not survive a fork: a team that counts on them waits forever, as torch's own operations do.
    """
    return 1 if _forked else wanted


def _after_fork() -> None:
    global _forked, _loading
    _forked = True
    _loading = threading.Lock()  # another thread of the parent may have held it


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_after_fork)


def load(source: Path) -> Loaded:
    """Load the library of this source from the cache; compile it where it is not there, or damaged."""
    mode = _mode()
    try:
        slots = _slots(source, mode)
        kept = (slot.read() for slot in slots if mode != "rebuild")
        return next(filter(None, kept), None) or _compile_into(slots[-1], source, again=mode == "rebuild")
    except (_BuildError, OSError) as failure:  # OSError: not even a temporary folder can be made
        return Loaded(None, Status(False, f"torch ({getattr(failure, 'strerror', None) or failure})"))


def expected(source: Path) -> Status:
    """What :func:`load` would come to, as far as the cache knows."""
    mode = _mode()
    try:
        slots = _slots(source, mode)
    except _BuildError as failure:
        return Status(False, f"torch ({failure})")
    if known := [record.status for slot in slots if mode != "rebuild" and (record := slot.record()) is not None]:
        return known[0]
    if (compiler := slots[-1].compiler) is None:
        return Status(False, f"torch ({_INSTALL})")
    return Status(True, f"native kernels ({compiler.name}, {_vector_unit()}, float32; compiled on first use)")


def _mode() -> str:
    mode = os.environ.get(VARIABLE) or "1"
    if mode not in ("0", "1", "rebuild"):
        raise SpecError(
            f"{VARIABLE} is {mode!r}; expected 0 (torch computes), 1 (compiled kernels where they can be had, the "
            "default) or rebuild (compile them anew)"
        )
    return mode


def find_compiler() -> Compiler | None:
    """The first of ``$CXX``, g++, c++ and clang++ that is there and answers."""
    for wanted in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        with suppress(ValueError, OSError, subprocess.SubprocessError):  # ValueError: an open quote in CXX
            words = shlex.split(wanted)
            if words and (found := shutil.which(words[0])):
                command = (str(Path(found).absolute()), *words[1:])
                if lines := _run([*command, "--version"], seconds=30).splitlines():
                    return Compiler(command, lines[0])
    return None


def _processor() -> tuple[str, frozenset[str]]:
    """The architecture, and what the processor can do, as Linux tells it."""
    features: frozenset[str] = frozenset()
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as file:
        words = next((line.split(":")[1].split() for line in file if re.match(r"(flags|Features)\s*:", line)), [])
        features = frozenset(words)
    return platform.machine().lower(), features


def _vector_unit() -> str:
    architecture, features = _processor()
    if _ARCHITECTURES.get(architecture) == "aarch64":
        return "NEON"
    return next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in features), "SSE2")


class _Record(NamedTuple):
    """What came of compiling, as a file beside the library tells later processes."""

    status: Status
    openmp: bool = False
    sha256: str = ""


class _Slot(NamedTuple):
    """Where the library for this source, compiler and processor is kept, with its record, log and lock."""

    folder: Path
    key: str
    compiler: Compiler | None

    def file(self, suffix: str) -> Path:
        return self.folder / f"{self.key}.{suffix}"

    def record(self) -> _Record | None:
        """None where nothing was compiled yet, or the file is damaged."""
        with suppress(OSError, FileFormatError, KeyError):
            found = read_json(self.file("json"))
            status = Status(bool(found["active"]), str(found["text"]), str(found["log"]))
            return _Record(status, bool(found["openmp"]), str(found["sha256"]))
        return None

    def read(self) -> Loaded | None:
        """What is kept; None where it is to be compiled: nothing is there, or it is damaged."""
        record = self.record()
        if record is None or not record.status.active:
            return Loaded(None, record.status) if record else None
        path = self.file("so")
        with suppress(OSError, _BuildError):
            if hashlib.sha256(path.read_bytes()).hexdigest() == record.sha256:
                return Loaded(_opened(path, openmp=record.openmp), record.status)
        return None

    def keep(self, record: _Record, library: Path | None = None, log: str = "") -> None:
        """Write what came of compiling; a cache that cannot be written costs the next process its time, no more."""
        with suppress(OSError):
            if library is not None:
                with replacing(self.file("so")) as temporary:
                    shutil.copyfile(library, temporary)
            if log:
                self.file("log").write_text(log, encoding="utf-8")
            content = record.status._asdict() | {"openmp": record.openmp, "sha256": record.sha256}
            write_json(self.file("json"), content)


def _slots(source: Path, mode: str) -> list[_Slot]:
    """Where to look, and last where to compile.

    A slot is named by all that decides what comes out, so that machines which share a home folder do not disagree.
    Where there is no compiler, as on nodes of a cluster, what another one compiled for the same processor serves.
    """
    if mode == "0":
        raise _BuildError(f"{VARIABLE}=0")
    architecture, features = _processor()
    if architecture not in _ARCHITECTURES or os.name != "posix":
        raise _BuildError(
            f"the kernels are for x86-64 and aarch64 under Linux and macOS; this is {platform.platform()}"
        )
    try:
        sources = [path.read_bytes() for path in sorted({source, *source.parent.glob("*.h")})]
        folder = cache_folder() / "native"
    except OSError as error:
        raise _BuildError(f"{source.name} cannot be read ({error.strerror}): install pointset again") from None
    except PointsetError as error:  # no folder for a cache
        raise _BuildError(str(error)) from None
    key = f"kernels-{_digest(ABI, _FLAGS, _WHERE_ACCEPTED, architecture, sorted(features), sources)}"
    if (compiler := find_compiler()) is not None:
        return [_Slot(folder, f"{key}-{_digest(compiler)[:8]}", compiler)]
    others = [_Slot(folder, path.stem, None) for path in sorted(folder.glob(f"{key}-*.json"))]
    compiled = [slot for slot in others if (record := slot.record()) is not None and record.status.active]
    return [*compiled, _Slot(folder, f"{key}-none", None)]


def _digest(*content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _compile_into(slot: _Slot, source: Path, *, again: bool) -> Loaded:
    """Compile and keep the library, one process at a time; where the cache cannot be written, for this process only."""
    from filelock import lock_descriptor

    why, keep = "again" if again else "once", True
    with ExitStack() as stack:
        try:
            slot.folder.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(slot.file("lock").open("a"))
            with suppress(OSError):  # a file system without locks: both compile, and the last to finish is kept
                lock_descriptor(lock.fileno())
            if slot.file("json").exists() and not again:
                if (kept := slot.read()) is not None:  # another process came first
                    return kept
                why = f"again, as {slot.file('so')} was damaged"
            for abandoned in slot.folder.glob(f".{slot.key}-*"):  # by a process that was killed
                shutil.rmtree(abandoned, ignore_errors=True)
            building = stack.enter_context(tempfile.TemporaryDirectory(prefix=f".{slot.key}-", dir=slot.folder))
        except OSError as error:
            why = f"for this process only, as {slot.folder} cannot be written ({error.strerror}; see POINTSET_CACHE)"
            building, keep = stack.enter_context(tempfile.TemporaryDirectory(prefix="pointset-")), False
        return _compiled(slot, source, Path(building), why, keep=keep)


def _compiled(slot: _Slot, source: Path, folder: Path, why: str, *, keep: bool) -> Loaded:
    """Compile in this folder, load, keep, and say in one line on stderr what was done and how long it took."""
    start = time.monotonic()
    head = f"compiling pointset's kernels for this processor, {why}: " if slot.compiler else "pointset: "
    _say(head, end="")
    try:
        library, record = _build(slot.compiler, source, folder)
    except _BuildError as failure:
        log = str(slot.file("log")) if failure.log and keep else ""
        record = _Record(Status(False, f"torch ({failure})", log))
        if keep and failure.lasting:
            slot.keep(record, log=failure.log)
        _say(f"{failure}. Torch computes instead, slower{f'; full log: {log}' if log else ''}")
        return Loaded(None, record.status)
    except BaseException:  # Ctrl-C
        _say("stopped")
        raise
    if keep:
        slot.keep(record, folder / _LIBRARY)
    _say(duration(time.monotonic() - start))
    return Loaded(library, record.status)


def _build(compiler: Compiler | None, source: Path, folder: Path) -> tuple[ctypes.CDLL, _Record]:
    """The library that this compiler makes, loaded, with the flags that it accepts.

    Raises:
        _BuildError: it cannot be compiled, or not be loaded.
    """
    if compiler is None:
        raise _BuildError(_INSTALL)
    accepted = [flag for flag in _WHERE_ACCEPTED if _works(compiler, flag, folder)]
    path = _linked(compiler, [*_FLAGS, *accepted], source, folder / _LIBRARY)
    openmp = "-fopenmp" in accepted
    library = _opened(path, openmp=openmp)
    parts = [compiler.name, *([_vector_unit()] if "-march=native" in accepted else []), "float32"]
    text = f"native kernels ({', '.join(parts)}{'' if openmp else ', one thread: no OpenMP'})"
    return library, _Record(Status(True, text), openmp, hashlib.sha256(path.read_bytes()).hexdigest())


def _works(compiler: Compiler, flag: str, folder: Path) -> bool:
    """Whether a few lines compile with this flag and load, which takes less time than trying it on the kernels."""
    source = folder / "probe.cpp"
    try:
        source.write_text(_PROBE)
        path = _linked(compiler, [*_FLAGS, flag], source, folder / f"probe{flag}.so")
        if flag == "-fopenmp":  # clang's OpenMP calls for symbols that the runtime of gcc does not have
            _share_openmp()
            ctypes.CDLL(str(path))
    except (_BuildError, OSError):
        return False
    return True


def _linked(compiler: Compiler, flags: Sequence[str], source: Path, output: Path) -> Path:
    compiled = output.with_suffix(".o")
    steps = (
        [*compiler.command, *flags, "-c", source.name, "-o", str(compiled)],
        [*compiler.command, "-shared", str(compiled), "-o", str(output)],
    )
    for command in steps:
        try:
            _run(command, _COMPILER_SECONDS, folder=source.parent, TMPDIR=str(output.parent))
        except subprocess.CalledProcessError as error:
            said = f"{error.stderr}".strip() or f"{compiler.name} ended with code {error.returncode}"
            first = next((line for line in said.splitlines() if "error" in line), said.splitlines()[0])
            passing = error.returncode < 0 or any(words in said for words in _PASSING)
            reason = f"the kernels did not compile: {clipped(printable(first), 200)}"
            raise _BuildError(reason, log=f"{shlex.join(command)}\n{said}\n", lasting=not passing) from None
        except (OSError, subprocess.SubprocessError) as error:
            raise _BuildError(
                f"the kernels did not compile: {clipped(printable(f'{error}'), 200)}", lasting=False
            ) from None
    return output


def _run(command: list[str], seconds: float, folder: Path | None = None, **variables: str) -> str:
    """What the command writes to stdout."""
    return subprocess.run(  # noqa: S603 - the user's compiler
        command,
        check=True,
        cwd=folder,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        errors="replace",
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C", **variables},
    ).stdout


def _opened(path: Path, *, openmp: bool) -> ctypes.CDLL:
    if openmp:
        _share_openmp()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        said = clipped(printable(f"{error}"), 200)
        if "failed to map segment" in said:
            said = "the cache may not hold programs (mounted noexec?), name another folder in POINTSET_CACHE"
        raise _BuildError(f"the compiled kernels cannot be loaded: {said}") from None
    found = library.pointset_abi() if hasattr(library, "pointset_abi") else "none"
    if found != ABI:
        raise _BuildError(f"the kernels have interface {found}, and {ABI} is expected: install pointset again")
    return library


def _share_openmp() -> None:
    """Make the OpenMP runtime that torch has loaded visible to libraries that are linked to none."""
    import torch  # noqa: F401 - it loads the runtime

    if hasattr(ctypes.CDLL(None), "GOMP_parallel"):
        return
    names = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    runtimes = sorted(name for name in names if re.search(r"/lib(gomp|iomp5|omp)\b[^/]*$", name))
    ctypes.CDLL(runtimes[0] if runtimes else "libgomp.so.1", mode=ctypes.RTLD_GLOBAL)


def _say(text: str, end: str = "\n") -> None:
    """On stderr, once for all processes that work together."""
    from multiprocessing import parent_process

    if parent_process() is None and os.environ.get("LOCAL_RANK", "0") == "0" and sys.stderr is not None:
        with suppress(OSError, ValueError):  # a terminal that was closed
            print(text, end=end, file=sys.stderr, flush=True)
