"""How a plain pickle describes torch tensors, rebuilt with every number checked (:data:`KNOWN`).

A tensor is a storage, an offset, sizes and strides; its storage is the bytes of a file of ``torch.save`` in the format
from before PyTorch 1.6, which holds five small pickles itself. ``torch.load`` needs 0.2 ms for each, two minutes for
the 750,000 storages of ZINC. All storages are written in one form, so it is matched, and nothing is unpickled.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from typing import Any

import torch
from torch import Tensor

from pointset.errors import FileFormatError

_DTYPES = {
    b"Double": torch.float64,
    b"Float": torch.float32,
    b"Half": torch.float16,
    b"BFloat16": torch.bfloat16,
    b"Long": torch.int64,
    b"Int": torch.int32,
    b"Short": torch.int16,
    b"Char": torch.int8,
    b"Byte": torch.uint8,
    b"Bool": torch.bool,
}
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


class PickledStorage:
    """The numbers of a tensor, in a row."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: Tensor):
        self.numbers = numbers


def _storage(content: object) -> PickledStorage:
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
        return PickledStorage(torch.empty(0, dtype=dtype))
    return PickledStorage(torch.frombuffer(bytearray(memoryview(content)[start:]), dtype=dtype))


def _unusual_storage(content: bytes) -> PickledStorage:
    """A storage that was written in another form, e.g. on a GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TypedStorage is deprecated, but it is what such files hold
        storage = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        if not isinstance(storage, torch.storage.TypedStorage):
            raise FileFormatError(f"a {type(storage).__name__} where the numbers of a tensor belong")
        return PickledStorage(torch.empty(0, dtype=storage.dtype).set_(storage.untyped()))  # type: ignore[no-untyped-call]


def _tensor(storage: object, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    """The view of the storage; torch itself checks that it lies inside."""
    if type(storage) is not PickledStorage or any(type(axis) is not int for axis in size):
        raise FileFormatError("a tensor without its storage or sizes")
    if math.prod(size) > len(storage.numbers):
        raise FileFormatError("a tensor that claims more numbers than the file holds for it")
    return storage.numbers.as_strided(size, stride, offset)


KNOWN_TENSORS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch.storage", "_load_from_bytes"): _storage,
}
