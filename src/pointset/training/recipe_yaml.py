"""YAML of recipes: plain data only, numbers as people write them, and text that is read back exactly.

YAML 1.1, which PyYAML reads by itself, takes 1e-3 for text and NO (nitric oxide, a target) for false. Here 1e-3 is a
number, only true and false are truth values, and there are neither dates nor anchors.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from pointset.errors import FileFormatError

_TAG = "tag:yaml.org,2002:"
_SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
)


class _Reader(yaml.SafeLoader):
    """Plain data without anchors; mappings with each key once, and text as keys."""

    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 (a class variable of PyYAML)

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.constructor.ConstructorError(None, None, "anchors (&, *) are not read; write it out", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        keys = []
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in keys:
                fault = "stands twice" if key in keys else "is no text"
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} {fault}", key_node.start_mark)
            keys.append(key)
        return super().construct_mapping(node, deep=True)

    def construct_yaml_float(self, node: Any) -> float:
        return float(node.value)  # PyYAML's own treats 1:30 as sixtieths


class _Writer(yaml.SafeDumper):
    """Mappings as lines, short lists in one; puts into quotes what either version of YAML would not read as text."""

    def represent_list(self, data: Any) -> Any:
        inline = all(not isinstance(item, list | dict) for item in data)
        return self.represent_sequence(f"{_TAG}seq", data, flow_style=inline)

    def represent_str(self, data: str) -> Any:
        style = None if data.isprintable() else '"'  # else PyYAML loses odd line ends, such as U+0085
        return self.represent_scalar(f"{_TAG}str", data, style=style)

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Reader.add_constructor(f"{_TAG}float", _Reader.construct_yaml_float)
_Writer.add_representer(list, _Writer.represent_list)
_Writer.add_representer(str, _Writer.represent_str)
for _name, _pattern, _first in _SCALARS:
    for _class in (_Reader, _Writer):
        _class.add_implicit_resolver(f"{_TAG}{_name}", re.compile(rf"(?:{_pattern})\Z"), list(_first))


def read_value(text: str) -> Any:
    """Plain data from YAML.

    Raises:
        FileFormatError: it is no YAML, or more than plain data.
    """
    return _read(text, _Reader)


def read_texts(text: str) -> Any:
    """The same with every scalar as the text that it is written as: ``[NO, 007]``.

    Raises:
        FileFormatError: it is no YAML.
    """
    return _read(text, yaml.BaseLoader)


def _read(text: str, loader: Any) -> Any:
    try:
        return yaml.load(text, Loader=loader)  # noqa: S506 (both loaders are safe ones: plain data only)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        raise FileFormatError(f"{where}{problem}") from None
    except (yaml.YAMLError, ValueError) as error:  # forbidden characters, a whole number of 5,000 digits
        raise FileFormatError(" ".join(str(error).split())) from None
    except RecursionError:
        raise FileFormatError("it is nested too deeply") from None


def written(values: dict[str, Any]) -> str:
    """Plain data as YAML, in the order of its keys; :func:`read_value` gives it back exactly."""
    text: str = yaml.dump(values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110)
    return text
