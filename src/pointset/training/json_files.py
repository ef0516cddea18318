"""JSON files of a run: written whole or not at all, and read with a word on what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pointset.errors import FileFormatError
from pointset.files import replacing


def write_json(path: Path, content: Any) -> None:
    """For programs and people; :func:`finite` numbers only."""
    with replacing(path) as temporary:
        text = json.dumps(finite(content), indent=1, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A file that :func:`write_json` wrote.

    Raises:
        FileFormatError: it is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path} is damaged ({error})") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path} is damaged; expected an object")
    return content


def finite(content: Any) -> Any:
    """The same with None for NaN and ±∞, scores of a model that diverged, which JSON does not have."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
