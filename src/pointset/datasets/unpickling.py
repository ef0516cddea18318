"""Files of ``pickle`` and of ``torch.save``, of which nothing is rebuilt but plain data.

The official files of ZINC and of the Long Range Graph Benchmark are pickles, and PyG's are pickles too: there is no
other form of them to download. A pickle is a program, and ``pickle.load`` runs it. Here it runs on a machine that can
only make containers, numbers, text, arrays and tensors (:mod:`~pointset.datasets.plain_unpickler`), or, where
``torch.save`` wrote it, through ``torch.load(weights_only=True)``.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pointset.errors import FileFormatError

if TYPE_CHECKING:
    from torch import Tensor

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
    from pointset.datasets.plain_unpickler import PlainUnpickler

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
