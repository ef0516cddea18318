"""Files of ``pickle`` and of ``torch.save``, of which nothing is rebuilt but plain data.

The official files of ZINC and of the Long Range Graph Benchmark are pickles, and PyG's are pickles too: there is no
other form of them to download. A pickle is a program, and ``pickle.load`` runs it. Here it runs on a machine that can
only make containers, numbers, text, arrays and tensors (:mod:`~pointset.datasets.safe_pickle`), or, where
``torch.save`` wrote it, through ``torch.load(weights_only=True)``.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

import numpy as np

from pointset.arrays import Array
from pointset.errors import FileFormatError

if TYPE_CHECKING:
    from torch import Tensor


# How a pickle describes numpy arrays, rebuilt with every number checked (:data:`KNOWN`).
#
# numpy's own ``dtype.__setstate__`` believes what the file says: flags that call bytes of the file pointers to Python
# objects, for one. So a dtype is made from its code here, and an array only ever gets a state that was looked at.


_PLAIN_CODE = re.compile(r"[?biufcSUO]\d{0,9}")
_MOST_AXES = 16


class PickledDtype:
    """A dtype of plain numbers, strings or objects while a pickle is read; its state is only the byte order."""

    __slots__ = ("dtype",)

    def __init__(self, code: object, align: object = False, copy: object = True):
        if type(code) is not str or not _PLAIN_CODE.fullmatch(code):
            raise FileFormatError("an array that is not of plain numbers or text")
        self.dtype = np.dtype(code)
        if not self.dtype.itemsize:
            raise FileFormatError("an array whose entries have no size")

    def set_state(self, state: object) -> None:
        """(version, byte order, subarray, names, fields, size, alignment, flags, …): the middle three must be None."""
        if type(state) is not tuple or len(state) < 5 or state[1] not in ("<", ">", "=", "|") or any(state[2:5]):
            raise FileFormatError("an array of records")
        self.dtype = self.dtype.newbyteorder(state[1])


def set_array_state(array: Array, state: object) -> None:
    """Fill an array: state = (version, shape, dtype, Fortran order?, bytes or, of objects, a list)."""
    if type(state) is not tuple or len(state) != 5:
        raise FileFormatError("an array whose state is not that of numpy")
    _, shape, kind, fortran, content = state
    dtype, count = _dtype_of(kind), _count(shape)
    kind_of_content, size = (list, 1) if dtype.hasobject else (bytes, dtype.itemsize)
    if type(content) is not kind_of_content or len(content) != count * size:
        raise FileFormatError(f"an array of shape {shape} that does not have the bytes for it")
    array.__setstate__((1, shape, dtype, fortran is True, content))  # type: ignore[arg-type] # numpy wants a plain bool


def _empty_array(subtype: object, shape: object, code: object) -> Array:
    if subtype is not _NDARRAY:
        raise FileFormatError("an array of another class than numpy.ndarray")
    return np.empty(0, dtype=np.int8)


def _array_of_bytes(content: object, kind: object, shape: object, order: object, axes: object = None) -> Array:
    dtype, count = _dtype_of(kind), _count(shape)
    if type(content) not in (bytes, bytearray) or dtype.hasobject or order not in ("C", "F") or axes is not None:
        raise FileFormatError("an array that is not made of bytes in C or Fortran order")
    flat = np.frombuffer(content, dtype=dtype)  # type: ignore[call-overload]
    if len(flat) != count:
        raise FileFormatError(f"an array of shape {shape} that does not have the bytes for it")
    return flat.reshape(shape, order=order)  # type: ignore[no-any-return]


def _number(kind: object, content: object) -> Any:
    dtype = _dtype_of(kind)
    if dtype.hasobject or type(content) is not bytes or len(content) != dtype.itemsize:
        raise FileFormatError("a numpy number without its bytes")
    return np.frombuffer(content, dtype=dtype)[0]


def _bytes_of_text(text: object, encoding: object) -> bytes:
    if type(text) is not str or encoding != "latin1":
        raise FileFormatError("bytes that are not written as pickles of protocol 2 write them")
    return text.encode("latin1")


def _no_bytes() -> bytes:
    """Protocol 2 has no bytes of its own; empty ones are a call without arguments."""
    return b""


def _dtype_of(kind: object) -> np.dtype[Any]:
    if type(kind) is not PickledDtype:
        raise FileFormatError("an array without a dtype")
    return kind.dtype


def _count(shape: object) -> int:
    if type(shape) is not tuple or len(shape) > _MOST_AXES or any(type(size) is not int or size < 0 for size in shape):
        raise FileFormatError("an array whose shape is not a tuple of whole numbers")
    return math.prod(shape)


_NDARRAY = "numpy.ndarray"  # stands for the class, which could be called

KNOWN_ARRAYS: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): PickledDtype,
    ("_codecs", "encode"): _bytes_of_text,
    ("__builtin__", "bytes"): _no_bytes,
} | {
    (f"numpy.{core}.{module}", name): function
    for core in ("core", "_core")  # before numpy 2, and since
    for module, name, function in (
        ("multiarray", "_reconstruct", _empty_array),
        ("multiarray", "scalar", _number),
        ("numeric", "_frombuffer", _array_of_bytes),
    )
}


# Python's unpickler with the instructions and functions that plain data needs, and no others.
#
# The unpickler written in C is quicker, but a few bytes can make it fill the memory (one forged LONG_BINPUT) or crash
# (a
# deep tuple as a key), and it hands states to ``__setstate__`` unseen. This one reads ZINC's files faster than
# ``pickle.load`` all the same (see :mod:`~pointset.datasets.pickled_tensors`).


# fmt: off
_INSTRUCTIONS = (  # the other half of the language of pickles makes objects of classes, sets, and text of Python 2
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE,
    pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.LONG4, pickle.BINFLOAT,
    pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.BINUNICODE8, pickle.SHORT_BINBYTES, pickle.BINBYTES,
    pickle.BINBYTES8, pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_DICT, pickle.BINGET, pickle.LONG_BINGET,
    pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE,
)
# fmt: on


def _refused(unpickler: Any) -> None:
    raise FileFormatError("instructions that plain data does not need, or is no pickle of protocol 2 to 5")


class PlainUnpickler(pickle._Unpickler):
    """Rebuilds lists, tuples, dicts, numbers, text, bytes, numpy arrays and torch tensors.

    All else is a :class:`FileFormatError` whose message completes "the file holds …".
    """

    stack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict.fromkeys(range(256), _refused) | {
        code[0]: pickle._Unpickler.dispatch[code[0]] for code in _INSTRUCTIONS
    }

    def find_class(self, module: str, name: str) -> Any:
        """What a global of a pickle stands for: never the thing itself, always a function of this package."""
        known = KNOWN_ARRAYS | {("collections", "OrderedDict"): _empty_ordered_dict}
        if module.startswith("torch"):
            from pointset.datasets import pickled_tensors  # imports torch

            known |= pickled_tensors.KNOWN_TENSORS
        if (module, name) not in known:
            raise FileFormatError(f"{module}.{name}"[:200])
        return known[module, name]

    def load_build(self) -> None:
        """The state of an array or a dtype; nothing else has one."""
        state, value = self.stack.pop(), self.stack[-1]
        if type(value) is np.ndarray:
            set_array_state(value, state)
        elif type(value) is PickledDtype:
            value.set_state(state)
        else:
            raise FileFormatError(f"a {type(value).__name__} with a state")

    def load_setitems(self) -> None:
        """Entries of a dict."""
        entries = self.pop_mark()
        _enter(self.stack[-1], entries[::2], entries[1::2])

    def load_setitem(self) -> None:
        """One entry of a dict."""
        value, key = self.stack.pop(), self.stack.pop()
        _enter(self.stack[-1], [key], [value])

    def load_bytearray8(self) -> None:
        """Bytes are read before there is room for them: the length may be a lie."""
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    dispatch |= {
        pickle.BUILD[0]: load_build,
        pickle.SETITEMS[0]: load_setitems,
        pickle.SETITEM[0]: load_setitem,
        pickle.BYTEARRAY8[0]: load_bytearray8,
    }


def _enter(target: Any, keys: list[Any], values: list[Any]) -> None:
    if type(target) not in (dict, OrderedDict):
        raise FileFormatError(f"entries of a {type(target).__name__}")
    for key, value in zip(keys, values, strict=True):
        if type(key) not in (str, int):  # computing the hash of a deep tuple would crash Python
            raise FileFormatError(f"a {type(key).__name__} as a key of a dict")
        target[key] = value


def _empty_ordered_dict() -> OrderedDict[Any, Any]:
    return OrderedDict()


_EXPECTED = "expected only lists, tuples, dicts, numbers, text, numpy arrays and torch tensors"
_NOTHING_RUN = "Nothing was run: to rebuild other objects, code that the file names would have to run"
_LARGEST_VIEW = 2**26  # bytes that a tensor may claim beyond those stored for it (views such as ones(1).expand(n, 1))


def read_pickle(source: str | Path | IO[bytes], *, place: object = None) -> Any:
    """What a pickle of protocol 2 to 5 holds; a binary file is read from where it stands.

    Args:
        source: a path or an open file.
        place: what messages call it; by default its own name.

    Raises:
        FileFormatError: it names other things (and nothing of it was run), is cut short, or is no pickle.
    """
    pass

    with _opened(source, place) as (name, file):
        try:
            return PlainUnpickler(file).load()
        except FileFormatError as error:
            raise FileFormatError(f"{name} holds {error}; {_EXPECTED}. {_NOTHING_RUN}") from None
        except Exception as error:  # whatever a damaged or forged pickle provokes
            raise _unreadable(name, "a pickle", error) from None


def read_torch(source: str | Path | IO[bytes], *, place: object = None) -> Any:
    """What ``torch.save`` wrote, of any version of PyTorch; PyG's ``Data`` may be in it.

    Args:
        source: a path or an open file.
        place: what messages call it; by default its own name.

    Raises:
        FileFormatError: it names other things (and nothing of it was run), is cut short, or is no such file.
    """
    with _opened(source, place) as (name, opened):
        try:
            # torch.load jumps about in the file, and every jump back in a packed member unpacks it from the start
            file = io.BytesIO(opened.read()) if isinstance(opened, zipfile.ZipExtFile) else opened
            _check_unpacked(file)
            content = load_tensors(file)
            _check_tensors(content)
        except FileFormatError as error:
            raise FileFormatError(f"{name} holds {error}") from None
        except Exception as error:  # whatever a damaged or forged file provokes
            if strange := re.search(r"GLOBAL (\S+)", str(error)):
                raise FileFormatError(f"{name} holds {strange[1]}; {_EXPECTED}. {_NOTHING_RUN}") from None
            raise _unreadable(name, "a file of torch.save", error) from None
        return content


def load_tensors(file: Path | IO[bytes]) -> Any:
    """``torch.load`` of tensors, plain containers and PyG's ``Data``; what it raises for others is not translated."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # safe_globals forgets all it was given, so it must not be given what PyG itself made known to torch
    needed = {Data, DataEdgeAttr, DataTensorAttr, GlobalStorage}.difference(torch.serialization.get_safe_globals())
    with torch.serialization.safe_globals(list(needed)):
        return torch.load(file, map_location="cpu", weights_only=True)


def claims_too_much(tensor: Tensor) -> bool:
    """A view such as ones(1).expand(10**12) takes no room in the file, and more than there is when it is used."""
    return tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes() + _LARGEST_VIEW


def _check_unpacked(file: IO[bytes]) -> None:
    """A packed archive could unfold to more than the memory holds; torch.save packs nothing."""
    start = file.tell()
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise FileFormatError("a compressed archive; expected a file of torch.save, which compresses nothing")
    file.seek(start)


def _check_tensors(content: Any) -> None:
    """Refuse tensors that are not dense, or claim too much, however deep in containers they lie."""
    from torch import Tensor, strided

    waiting, seen = [content], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            if value.layout is not strided:
                raise FileFormatError(f"a {value.layout} tensor; expected dense ones")
            if claims_too_much(value):
                raise FileFormatError("a tensor that claims more numbers than the file holds for it")
        elif id(value) not in seen and (inside := _inside(value)):
            seen.add(id(value))
            waiting.extend(inside)


def _inside(value: Any) -> Iterable[Any]:
    from torch_geometric.data import Data

    content = value.to_dict() if isinstance(value, Data) else value
    if isinstance(content, dict):
        return content.values()
    return content if isinstance(content, list | tuple) else ()


def _unreadable(name: str, kind: str, error: Exception) -> FileFormatError:
    reason = str(error).strip().partition("\n")[0][:200]
    return FileFormatError(
        f"{name} cannot be read as {kind} ({type(error).__name__}{': ' if reason else ''}{reason}); it is empty, cut "
        "short or of another kind. Get it again"
    )


@contextmanager
def _opened(source: str | Path | IO[bytes], place: object) -> Iterator[tuple[str, IO[bytes]]]:
    if isinstance(source, str | Path):
        with Path(source).open("rb") as file:
            yield str(place or source), file
    else:
        yield str(place or getattr(source, "name", "the file")), source
