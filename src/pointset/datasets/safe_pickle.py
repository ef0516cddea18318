"""Pickles and files of ``torch.save``, of which nothing is rebuilt but plain data.

The official files of ZINC and of the Long Range Graph Benchmark are pickles, and PyG's are pickles too: they are not
published in any other form. A pickle is a program, and ``pickle.load`` runs it. Files of ``torch.save`` are read by
``torch.load(weights_only=True)`` (:func:`read_torch`), which does not read other pickles. These are read by Python's
own unpickler, reduced to the instructions and the functions that plain data needs (:func:`read_pickle`).

The unpickler written in C would not do: a few bytes can make it fill the memory (one forged LONG_BINPUT) or crash (a
deep tuple as a key), and it hands states to ``__setstate__`` unseen.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from pointset.arrays import Array
from pointset.errors import FileFormatError
from pointset.files import open_binary
from pointset.points.graphs import tensor_fault

_EXPECTED = "expected only lists, tuples, dicts, numbers, text, numpy arrays and torch tensors"
_NOTHING_RUN = "Nothing was run: to rebuild other objects, code that the file names would have to run"
_LARGEST_VIEW = 2**26  # bytes that a tensor may claim beyond those stored for it (views such as ones(1).expand(n, 1))


def read_pickle(source: str | Path | IO[bytes], *, place: object = None) -> Any:
    """What a pickle of protocol 2 to 5 holds; an open file is read from where it stands. Messages call it ``place``.

    Raises:
        FileFormatError: it names other things (and nothing of it was run), is cut short, or is not a pickle.
    """
    with _opened(source, place) as (name, file):
        try:
            return _PlainUnpickler(file).load()
        except FileFormatError as error:
            raise FileFormatError(f"{name} holds {error}; {_EXPECTED}. {_NOTHING_RUN}") from None
        except Exception as error:  # whatever a damaged or forged pickle provokes
            raise _unreadable(name, "a pickle", error) from None


def read_torch(source: str | Path | IO[bytes], *, place: object = None) -> Any:
    """What ``torch.save`` wrote, of any version of PyTorch; PyG's ``Data`` may be in it. Messages call it ``place``.

    Raises:
        FileFormatError: it names other things (and nothing of it was run), is cut short, or is not such a file.
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
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    # safe_globals forgets all it was given, so it must not be given what PyG itself made known to torch
    needed = {Data, DataEdgeAttr, DataTensorAttr, GlobalStorage}.difference(torch.serialization.get_safe_globals())
    with torch.serialization.safe_globals(list(needed)), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about kinds of tensors that are refused afterwards
        return torch.load(file, map_location="cpu", weights_only=True)


def claims_too_much(tensor: Tensor) -> bool:
    """A view such as ones(1).expand(10**12) takes no room in the file, and more than there is when it is used."""
    return tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes() + _LARGEST_VIEW


@contextmanager
def _opened(source: str | Path | IO[bytes], place: object) -> Iterator[tuple[str, IO[bytes]]]:
    if isinstance(source, str | Path):
        with open_binary(source) as file:
            yield str(place or source), file
    else:
        yield str(place or getattr(source, "name", "the file")), source


def _unreadable(name: str, kind: str, error: Exception) -> FileFormatError:
    reason = str(error).strip().partition("\n")[0][:200]
    return FileFormatError(
        f"{name} cannot be read as {kind} ({type(error).__name__}{': ' if reason else ''}{reason}); it is empty, cut "
        "short or of another kind. Get it again"
    )


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
    waiting, seen = [content], set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Tensor):
            if fault := tensor_fault(value):
                raise FileFormatError(fault)
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


# Plain pickles. All else than plain data is a FileFormatError whose message completes "the file holds …".

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
    raise FileFormatError("instructions that plain data does not need, or is not a pickle of protocol 2 to 5")


class _PlainUnpickler(pickle._Unpickler):
    stack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[Any]]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict.fromkeys(range(256), _refused) | {
        code[0]: pickle._Unpickler.dispatch[code[0]] for code in _INSTRUCTIONS
    }

    def find_class(self, module: str, name: str) -> Any:
        """What a global of a pickle stands for: never the thing itself, always a function of this file."""
        if (module, name) not in _GLOBALS:
            raise FileFormatError(f"{module}.{name}"[:200])
        return _GLOBALS[module, name]

    def load_build(self) -> None:
        """The state of an array or a dtype; nothing else has one."""
        state, value = self.stack.pop(), self.stack[-1]
        if type(value) is np.ndarray:
            _fill_array(value, state)
        elif type(value) is _Dtype:
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


# numpy arrays. numpy's own ``dtype.__setstate__`` believes what the file says: flags that call bytes of the file
# pointers to Python objects, for one. So a dtype is made from its code, and an array gets a state that was looked at.

_PLAIN_CODE = re.compile(r"[biufcO]\d{1,2}|[SU][1-9]\d{0,8}")
_NDARRAY = "numpy.ndarray"  # stands for the class, which could be called


class _Dtype:
    """A dtype of plain numbers, text or objects while a pickle is read; its state is only the byte order."""

    def __init__(self, code: object, align: object = False, copy: object = True):
        if type(code) is not str or not _PLAIN_CODE.fullmatch(code):
            raise FileFormatError("an array that is not of plain numbers or text")
        self.dtype = np.dtype(code)

    def set_state(self, state: object) -> None:
        """(version, byte order, subarray, names, fields, size, alignment, flags, …): the middle three must be None."""
        if type(state) is not tuple or len(state) < 5 or state[1] not in ("<", ">", "=", "|") or any(state[2:5]):
            raise FileFormatError("an array of records")
        self.dtype = self.dtype.newbyteorder(state[1])


def _dtype_of(kind: object) -> np.dtype[Any]:
    if type(kind) is not _Dtype:
        raise FileFormatError("an array without a dtype")
    return kind.dtype


def _empty_array(subtype: object, shape: object, code: object) -> Array:
    if subtype is not _NDARRAY:
        raise FileFormatError("an array of another class than numpy.ndarray")
    return np.empty(0, dtype=np.int8)


def _fill_array(array: Array, state: Any) -> None:
    """Give an array the state (version, shape, dtype, Fortran order?, bytes or, of objects, a list)."""
    _, shape, kind, fortran, content = state
    if type(shape) is not tuple or any(type(size) is not int or size < 0 for size in shape):
        raise FileFormatError("an array whose shape is not a tuple of whole numbers")
    dtype = _dtype_of(kind)
    expected, size = (list, 1) if dtype.hasobject else (bytes, dtype.itemsize)
    if type(content) is not expected or len(content) != math.prod(shape) * size:
        raise FileFormatError(f"an array of shape {shape} that does not have the bytes for it")
    array.__setstate__((1, shape, dtype, fortran is True, content))  # type: ignore[arg-type] # numpy wants a plain bool


def _array_of_bytes(content: object, kind: object, shape: Any, order: Any, axes: object = None) -> Array:
    """The form of protocol 5; numpy itself checks that bytes, dtype and shape fit."""
    if type(content) not in (bytes, bytearray) or axes is not None:
        raise FileFormatError("an array that is not made of bytes in C or Fortran order")
    array: Array = np.frombuffer(content, dtype=_dtype_of(kind)).reshape(shape, order=order)  # type: ignore[call-overload]
    return array


def _number(kind: object, content: object) -> Any:
    if type(content) is not bytes or len(content) != _dtype_of(kind).itemsize:
        raise FileFormatError("a numpy number without its bytes")
    return np.frombuffer(content, dtype=_dtype_of(kind))[0]


def _bytes_of_text(text: object, encoding: object) -> bytes:
    if type(text) is not str or encoding != "latin1":
        raise FileFormatError("bytes that are not written as pickles of protocol 2 write them")
    return text.encode("latin1")


# torch tensors: a storage, an offset, sizes and strides. A storage is the bytes of a file of ``torch.save`` in the
# format from before PyTorch 1.6, which holds five small pickles itself. ``torch.load`` needs 0.2 ms for each, two
# minutes for the 750,000 storages of ZINC. Nearly all of them are written in one form, so it is matched.

_DTYPES = {
    b"Double": torch.float64, b"Float": torch.float32, b"Half": torch.float16, b"BFloat16": torch.bfloat16,
    b"Long": torch.int64, b"Int": torch.int32, b"Short": torch.int16, b"Char": torch.int8, b"Byte": torch.uint8,
    b"Bool": torch.bool,
}  # fmt: skip
_STORAGE = re.compile(
    # magic number, protocol version, and the machine it was written on
    rb"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19\.\x80\x02M\xe9\x03\."
    rb"\x80\x02\}q\x00\(X\x10\0\0\0protocol_versionq\x01M\xe9\x03X\r\0\0\0little_endianq\x02\x88X\n\0\0\0type_sizesq\x03"
    rb"\}q\x04\(X\x05\0\0\0shortq\x05K\x02X\x03\0\0\0intq\x06K\x04X\x04\0\0\0longq\x07K\x04uu\."
    # ("storage", class, key, "cpu", count, None), then the list of keys
    rb"\x80\x02\(X\x07\0\0\0storageq\x00ctorch\n(\w{3,8})Storage\nq\x01X(.)\0\0\0(\d{1,20})q\x02X\x03\0\0\0cpuq\x03"
    rb"(?:K.|M..|J....)Ntq\x04Q\.\x80\x02\]q\x00X\2\0\0\0\3q\x01a\.",
    re.DOTALL,
)


def _storage(content: object) -> Tensor:
    """The numbers of a storage, in a row."""
    if type(content) is not bytes:
        raise FileFormatError("a tensor without its bytes")
    match = _STORAGE.match(content)
    if match is None or match[1] not in _DTYPES:
        return _unusual_storage(content)
    dtype, start = _DTYPES[match[1]], match.end() + 8
    count = int.from_bytes(content[match.end() : start], "little")
    if len(content) - start != count * dtype.itemsize:
        raise FileFormatError("a tensor that does not have the bytes that it claims")
    if not count:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(bytearray(memoryview(content)[start:]), dtype=dtype)


def _unusual_storage(content: bytes) -> Tensor:
    """A storage that was written in another form, e.g. on a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TypedStorage is deprecated, but it is what such files hold
        storage = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if not isinstance(storage, torch.storage.TypedStorage):
            raise FileFormatError(f"a {type(storage).__name__} where the numbers of a tensor belong")
        return torch.empty(0, dtype=storage.dtype).set_(storage.untyped())  # type: ignore[no-untyped-call]


def _tensor(numbers: object, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    """The view of the storage; torch itself checks that it lies inside."""
    if type(numbers) is not Tensor or any(type(axis) is not int for axis in size):
        raise FileFormatError("a tensor without its storage or sizes")
    if math.prod(size) > numbers.numel():
        raise FileFormatError("a tensor that claims more numbers than the file holds for it")
    return numbers.as_strided(size, stride, offset)


_GLOBALS: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): lambda: OrderedDict(),
    ("_codecs", "encode"): _bytes_of_text,
    ("__builtin__", "bytes"): lambda: b"",  # protocol 2 has no bytes; empty ones are a call without arguments
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Dtype,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
}
for _core in ("numpy.core", "numpy._core"):  # before numpy 2, and since
    _GLOBALS[f"{_core}.multiarray", "_reconstruct"] = _empty_array
    _GLOBALS[f"{_core}.multiarray", "scalar"] = _number
    _GLOBALS[f"{_core}.numeric", "_frombuffer"] = _array_of_bytes
