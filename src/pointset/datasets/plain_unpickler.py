"""Python's unpickler with the instructions and functions that plain data needs, and no others.

The unpickler written in C is quicker, but a few bytes can make it fill the memory (one forged LONG_BINPUT) or crash (a
deep tuple as a key), and it hands states to ``__setstate__`` unseen. This one reads ZINC's files faster than
``pickle.load`` all the same (see :mod:`~pointset.datasets.pickled_tensors`).
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from pointset.datasets import pickled_arrays
from pointset.errors import FileFormatError

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
        known = pickled_arrays.KNOWN | {("collections", "OrderedDict"): _empty_ordered_dict}
        if module.startswith("torch"):
            from pointset.datasets import pickled_tensors  # imports torch

            known |= pickled_tensors.KNOWN
        if (module, name) not in known:
            raise FileFormatError(f"{module}.{name}"[:200])
        return known[module, name]

    def load_build(self) -> None:
        """The state of an array or a dtype; nothing else has one."""
        state, value = self.stack.pop(), self.stack[-1]
        if type(value) is np.ndarray:
            pickled_arrays.set_array_state(value, state)
        elif type(value) is pickled_arrays.PickledDtype:
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
