"""A list of graphs in a pickle, or in a file of ``torch.save``, also inside a zip (:func:`read_list`)."""

from __future__ import annotations

import io
from typing import IO, Any

from pointset.datasets.benchmarks.checked_arrays import kind_of
from pointset.datasets.benchmarks.members import LARGEST, Member
from pointset.datasets.unpickling import read_pickle, read_torch
from pointset.errors import FileFormatError
from pointset.progress import Advance

_BLOCK = 1 << 20


def read_list(member: Member, entries: str, *, largest: int = LARGEST, advance: Advance = lambda _: None) -> list[Any]:
    """What the file holds, a list with something in it; nothing is rebuilt but plain data.

    Args:
        member: the file; ``.pt`` is of ``torch.save``, all else a pickle.
        entries: what the list should hold, for messages.
        largest: bytes.
        advance: told of the bytes of a pickle as they are read.

    Raises:
        FileFormatError: it is damaged, names other things than plain data, or holds no such list.
    """
    with member.open(largest) as file:
        if (member.inside or member.path.name).endswith(".pt"):
            content = read_torch(file, place=member)
        else:
            content = _read_pickle(member, file, advance)
    if not isinstance(content, list) or not content:
        raise FileFormatError(f"{member} holds {kind_of(content)}; expected a list of {entries}")
    return content


def _read_pickle(member: Member, file: IO[bytes], advance: Advance) -> Any:
    with io.BufferedReader(_Counted(file, advance), _BLOCK) as counted:
        content = read_pickle(counted, place=member)
        try:
            while counted.read(_BLOCK):  # the zip's checksum is compared at the end of the file
                pass
        except Exception as error:  # whatever zipfile makes of a damaged member
            raise FileFormatError(f"{member} is damaged ({error}); get it again") from None
    return content


class _Counted(io.RawIOBase):
    """A file that tells a progress bar what was read of it."""

    def __init__(self, file: IO[bytes], advance: Advance):
        self._file, self._advance = file, advance

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        buffer[: len(block)] = block
        self._advance(len(block))
        return len(block)
