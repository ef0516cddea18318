"""Modules that register a user's own encoders, metrics and datasets: imported where the user says so, never by a file.

Three ways lead to them: ``import my_module`` in Python, ``pointset --import my_module …`` in the shell (which sets
``POINTSET_IMPORT`` for the processes that a command starts), and installed packages that have an entry point of the
group ``pointset.extensions``. The latter are looked at only when a name is not known, so that starting stays fast.
A bundle or a run's folder names the modules that it needs (:func:`needed`), and that is all it does.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from pointset.errors import SpecError

VARIABLE = "POINTSET_IMPORT"
GROUP = "pointset.extensions"
Entry = TypeVar("Entry")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")  # stands in lists with commas, in key=value, in names of folders
_PACKAGE = "pointset"


class Registration(NamedTuple):
    """Who registered a name."""

    kind: str  # "encoder", "metric" or "dataset"
    name: str
    module: str  # empty for a notebook or an interactive session


_registered: dict[tuple[str, str], Registration] = {}
_imported: dict[str, ModuleType] = {}  # what POINTSET_IMPORT named, as it was written there
_installed_seen = False


# --- registering


def check_name(kind: str, name: object, built_in: bool, same: bool, replace: bool) -> None:
    """Refuse a name that cannot be used, or that is taken: by the package, or by something else that was registered."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SpecError(
            f"got {name!r:.60} as the {kind}'s name; expected letters, digits, '-', '_' or '.', such as 'my-{kind}'"
        )
    if built_in:
        raise SpecError(f"the {kind} {name!r} is pointset's own and cannot be replaced; choose another name")
    earlier = _registered.get((kind, name))
    if earlier is not None and not same and not replace:
        where = f" by {earlier.module}" if earlier.module else ""
        raise SpecError(f"the {kind} {name!r} is registered already{where}; choose another name, or pass replace=True")


def same_thing(first: Any, second: Any) -> bool:
    """Whether two objects are one definition: a cell that is run again makes a new object of the same place."""
    if first is second:
        return True
    places = [(getattr(one, "__module__", None), getattr(one, "__qualname__", None)) for one in (first, second)]
    return places[0] == places[1] and None not in places[0] and "<lambda>" not in str(places[0][1])


def note_registration(kind: str, name: str, module: str) -> None:
    """Remember which module has to be imported for a name to be known."""
    _registered[kind, name] = Registration(kind, name, module)


def calling_module() -> str:
    """The module whose code called a ``register_…`` function of this package."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
    if name != "__main__":
        return name
    file = getattr(sys.modules["__main__"], "__file__", None)  # of a script; a notebook has none
    return "" if file is None else Path(file).stem


def module_of(kind: str, name: str) -> str | None:
    """The module that registered a name, empty for a notebook; None where it is the package's own, or not known."""
    found = _registered.get((kind, name))
    return None if found is None else found.module


def needed(*names: tuple[str, str | None]) -> dict[str, dict[str, str]]:
    """``{"encoder": {"linear": "my_module"}}`` of those of (kind, name) that were registered: for bundles and runs."""
    found: dict[str, dict[str, str]] = {}
    for kind, name in names:
        module = None if name is None else module_of(kind, name)
        if name is not None and module is not None:
            found.setdefault(kind, {})[name] = module
    return found


# --- finding


def look_up(kind: str, table: Mapping[str, Entry], name: object) -> Entry | None:
    """The entry of this name; where it is not known, modules that the user named and installed packages are imported.

    ``table`` is where entries of this kind are registered.
    """
    if not isinstance(name, str):
        return None
    if name not in table:
        load_extensions()
    return table.get(name)


def load_extensions() -> None:
    """Import what ``POINTSET_IMPORT`` names, and the installed packages of the group ``pointset.extensions``, once."""
    import_named()
    global _installed_seen
    if _installed_seen:
        return
    _installed_seen = True
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as error:  # a broken package is not the user's present question
            warnings.warn(
                f"the installed extension {entry.name} ({entry.value}) cannot be imported: {_reason(error)}",
                UserWarning,
                stacklevel=2,
            )


def missing(what: str, kind: str, name: str, module: str | None) -> str:
    """The message for a name that ``what`` needs and that nobody has registered here.

    Args:
        what: the bundle or the run.
        kind: ``"encoder"``, ``"metric"`` or ``"dataset"``.
        name: as it was registered there.
        module: which registered it there; empty for a notebook.
    """
    start = f"{what} needs the {kind} {name!r}, which "
    if not module:
        return start + (
            "was registered in a notebook or an interactive session; run the cell with "
            f"pointset.register_{kind}({name!r}, …) before pointset.load, or move it to a module of its own and pass "
            "--import MODULE in the shell"
        )
    return start + (
        f"the module {module} registers, and pointset imports no code because a file asks for it. If you trust it, "
        f"write `import {module}` before pointset.load in Python, or `pointset --import {module} …` in the shell"
    )


def check_needed(what: str, needs: object, **others: Callable[[str], bool]) -> None:
    """Refuse what needs encoders and metrics that are not registered here; ``needs`` as :func:`needed` gave it.

    ``others`` say of more kinds whether a name is known.

    Raises:
        SpecError: one is missing; the message names its module and what to do.
    """
    from pointset.metrics import is_metric
    from pointset.registry import is_preset

    known: dict[str, Callable[[str], bool]] = {"encoder": is_preset, "metric": is_metric, **others}
    for kind, names in needs.items() if isinstance(needs, dict) else ():
        for name, module in names.items() if isinstance(names, dict) and kind in known else ():
            if not known[kind](name):
                raise SpecError(missing(what, kind, str(name)[:80], str(module or "")[:80]))


# --- importing, by the user's word


def add_imports(names: Sequence[str]) -> None:
    """Import these modules now, and in every process that is started from here on.

    Args:
        names: of modules, also in the current folder, or paths of ``.py`` files.

    Raises:
        SpecError: there is no such module, or it fails.
    """
    places = [str(Path(name).resolve()) if _is_path(name) else name for name in names]
    for place in places:
        _import(place)
    before = _named()
    os.environ[VARIABLE] = os.pathsep.join([*before, *(place for place in places if place not in before)])


def import_named() -> None:
    """Import what ``POINTSET_IMPORT`` names, separated like ``PYTHONPATH``."""
    for place in _named():
        _import(place)


@contextmanager
def passed_on() -> Iterator[None]:
    """Processes started inside import the modules that have registered something here, if they can be imported."""
    before = os.environ.get(VARIABLE)
    modules = {one.module for one in _registered.values()} - {""}
    others = [name for name in sorted(modules) if name in sys.modules and name not in _imported_names()]
    try:
        if others:
            os.environ[VARIABLE] = os.pathsep.join([*_named(), *others])
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


def _imported_names() -> set[str]:
    return {module.__name__ for module in _imported.values()}


def _named() -> list[str]:
    """On Windows ``C:`` is no end, as the separator is ``;`` there."""
    return [name.strip() for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name.strip()]


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name or os.sep in name


def _import(place: str) -> None:
    if place in _imported:
        return
    try:
        _imported[place] = _from_file(Path(place)) if _is_path(place) else _by_name(place)
    except SpecError as error:
        raise SpecError(f"{place} cannot be imported: {error}") from error
    except Exception as error:
        raise SpecError(f"{place} cannot be imported: {_reason(error)}. Correct it, or leave --import out") from error


def _by_name(name: str) -> ModuleType:
    """A module of the current folder comes last, so that it hides no other."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # of something that it imports itself
        raise SpecError(
            f"there is no module {name!r}, neither installed nor in {here}; expected its name, or the path of its "
            f"file, such as {name.replace('.', '/')}.py"
        ) from None


def _from_file(path: Path) -> ModuleType:
    """Under the name of the file, so that other processes find its classes by it."""
    if not path.is_file():
        raise SpecError("there is no such file; expected a module's name, or the path of its .py file")
    name = path.stem
    there = sys.modules.get(name)
    if there is not None:
        if Path(getattr(there, "__file__", None) or "").resolve() == path.resolve():
            return there
        raise SpecError(f"another module is called {name!r} already; rename the file")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SpecError("it is not a Python file; expected a name that ends in .py")
    if (folder := str(path.resolve().parent)) not in sys.path:
        sys.path.append(folder)  # for what it imports, and for processes that unpickle its classes
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _reason(error: BaseException) -> str:
    """``NameError: name 'nn' is not defined (line 7 of my_module.py)``."""
    trace, where = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and Path(file) != Path(__file__):
            where = f" (line {trace.tb_lineno} of {Path(file).name})"
        trace = trace.tb_next
    return f"{type(error).__name__}: {error}{where}"
