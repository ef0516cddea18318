"""The lines of a text file, plain or gzip, in UTF-8, one after the other in constant memory (:func:`text_lines`)."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from pointset.errors import FileFormatError, MissingDataError

LONGEST_LINE = 2**22  # characters; what is longer is cut here, so that a file without line ends cannot fill the memory

_GZIP = b"\x1f\x8b"
_OTHER_KINDS = {
    b"PK\x03\x04": ("an Excel workbook or another zip archive", "Save the sheet as CSV in UTF-8"),
    b"\xd0\xcf\x11\xe0": ("an old Excel workbook", "Save the sheet as CSV in UTF-8"),
    b"PAR1": ("a Parquet file", "Write it as CSV, e.g. pandas.read_parquet(…).to_csv(…, index=False)"),
    b"BZh": ("a bzip2 archive", "Unpack it, or pack it with gzip"),
    b"\xfd7zXZ": ("an xz archive", "Unpack it, or pack it with gzip"),
    b"\xff\xfe": ("UTF-16 text", "Save it in UTF-8; on a shell: iconv -f UTF-16 -t UTF-8 IN > OUT"),
    b"\xfe\xff": ("UTF-16 text", "Save it in UTF-8; on a shell: iconv -f UTF-16 -t UTF-8 IN > OUT"),
}


class _BadByte(NamedTuple):
    value: int
    offset: int  # bytes before it
    line: int


def text_lines(path: Path) -> Iterator[str]:
    """Every line with its line end, of whichever kind; a byte-order mark at the beginning is dropped.

    Whether the file is packed with gzip is seen from its content, not from its name. A line of more than
    :data:`LONGEST_LINE` characters comes cut to one character more than that.

    Raises:
        MissingDataError: there is no such file.
        FileFormatError: not a readable file, not UTF-8, or a gzip file that is damaged or cut short.
    """
    with _opened(path) as binary:
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", newline="")
        try:
            while line := text.readline(LONGEST_LINE + 1):
                yield line
                while len(line) > LONGEST_LINE and not line.endswith(("\n", "\r")):
                    line = text.readline(LONGEST_LINE + 1)  # the rest of a cut line
        except UnicodeDecodeError:
            raise FileFormatError(_not_utf8(path)) from None
        finally:
            text.detach()


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked; whatever goes wrong while they are read is named."""
    try:
        with path.open("rb") as plain:
            start = plain.peek(8)
            for magic, (kind, remedy) in _OTHER_KINDS.items():
                if start.startswith(magic):
                    raise FileFormatError(f"{path} is {kind}; expected text in UTF-8, plain or gzip. {remedy}")
            if start.startswith(_GZIP):
                with gzip.GzipFile(fileobj=plain) as unpacked:
                    yield cast(BinaryIO, unpacked)
            else:
                yield plain
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileFormatError(
            f"{path} is a damaged gzip file: {str(error).rstrip('.')}. It was probably cut short; copy or download it "
            "again"
        ) from None
    except FileNotFoundError:
        raise MissingDataError(f"there is no file {path}; expected a table of text. Check the name") from None
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be read ({error.strerror or error}); expected a file of text in UTF-8"
        ) from None


def _not_utf8(path: Path) -> str:
    bad = _first_bad_byte(path)
    return (
        f"{path} is not UTF-8 text: byte {bad.value:#04x} at offset {bad.offset:,} (line {bad.line:,}). Save it in "
        "UTF-8 ('CSV UTF-8' in a spreadsheet); if it is Latin-1, on a shell: iconv -f LATIN1 -t UTF-8 IN > OUT"
    )


def _first_bad_byte(path: Path) -> _BadByte:
    """Where decoding stops; read again from the beginning, as a text stream does not know its byte offset."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    read, lines = 0, 1
    with _opened(path) as binary:
        while True:
            chunk = binary.read(2**20)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                begin = read + len(chunk) - len(error.object)  # the decoder holds back an unfinished letter
                lines += error.object[: error.start].count(b"\n")
                return _BadByte(error.object[error.start], begin + error.start, lines)
            if not chunk:
                raise FileFormatError(f"{path} changed while it was read; read it again")
            read += len(chunk)
            lines += chunk.count(b"\n")
