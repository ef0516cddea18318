"""How a pickle describes numpy arrays, rebuilt with every number checked (:data:`KNOWN`).

numpy's own ``dtype.__setstate__`` believes what the file says: flags that call bytes of the file pointers to Python
objects, for one. So a dtype is made from its code here, and an array only ever gets a state that was looked at.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from pointset.datasets.table import Array
from pointset.errors import FileFormatError

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

KNOWN: dict[tuple[str, str], Any] = {
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
