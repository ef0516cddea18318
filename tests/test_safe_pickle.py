"""Pickles of the official files are read as plain data; what else they ask for is refused and never run."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch_geometric.data import Data

from pointset.datasets.safe_pickle import read_pickle, read_torch
from pointset.errors import FileFormatError

PROTOCOLS = (2, 3, 4, 5)
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.bool)


def same(got: Any, expected: Any) -> bool:
    """Equal in values, types, dtypes and shapes, through all containers."""
    if type(got) is not type(expected):
        return False
    if isinstance(expected, dict):
        return list(got) == list(expected) and all(same(got[key], expected[key]) for key in expected)
    if isinstance(expected, list | tuple):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, np.ndarray):  # numpy turns foreign byte orders into its own
        return (
            got.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
            and got.shape == expected.shape
            and same(got.tolist(), expected.tolist())
        )
    if isinstance(expected, torch.Tensor):
        return got.dtype == expected.dtype and got.shape == expected.shape and same(got.tolist(), expected.tolist())
    return repr(got) == repr(expected)  # NaN equals NaN


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | hnp.arrays(
        st.sampled_from(["<f8", ">f4", "<i8", ">i2", "u1", "?", "S3", "<U4", "c16"]),
        hnp.array_shapes(min_dims=0, min_side=0),
    )
    | st.sampled_from([np.float32(1.5), np.int64(-3), np.bool_(True), np.float64("nan")]),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.dictionaries(st.text(), inner).map(OrderedDict)
    ),
    max_leaves=10,
)


@given(plain, st.sampled_from(PROTOCOLS))
def test_plain_data_comes_back_as_it_was(value: Any, protocol: int) -> None:
    assert same(read_pickle(io.BytesIO(pickle.dumps(value, protocol))), value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_come_back_as_they_were(dtype: torch.dtype, protocol: int) -> None:
    rows = torch.arange(12).reshape(3, 4).to(dtype)
    value = [{"rows": rows, "columns": rows.T, "part": rows[1:, ::2]}, torch.tensor(1, dtype=dtype), rows[:0]]
    assert same(read_pickle(io.BytesIO(pickle.dumps(value, protocol))), value)


def test_large_tensors_and_arrays() -> None:
    value = (torch.arange(70_000), np.arange(70_000.0), "text" * 70_000)
    for protocol in PROTOCOLS:
        assert same(read_pickle(io.BytesIO(pickle.dumps(value, protocol))), value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_objects_hold_plain_things(protocol: int) -> None:
    value = np.array([[1, "two"], [None, (3.0, torch.tensor([4]))]], dtype=object)
    assert same(read_pickle(io.BytesIO(pickle.dumps(value, protocol))), value)
    value[0, 0] = Strange()
    refused(pickle.dumps(value, protocol), "system")


def test_a_tensor_written_in_another_form_is_read_too() -> None:
    content = pickle.dumps(torch.tensor([1.0, 2.0])).replace(b"shortq\x05K\x02", b"shortq\x05K\x04")
    assert read_pickle(io.BytesIO(content)).tolist() == [1.0, 2.0]


def test_several_pickles_in_one_file_are_read_one_after_the_other(tmp_path: Path) -> None:
    with (tmp_path / "two.pickle").open("wb") as file:
        pickle.dump([1], file)
        pickle.dump([2], file)
    assert read_pickle(tmp_path / "two.pickle") == [1]
    with (tmp_path / "two.pickle").open("rb") as file:
        assert read_pickle(file) == [1]
        assert read_pickle(file) == [2]


class Strange:
    """What an attacker pickles."""

    function: Any = os.system
    arguments: Any = ("touch run",)

    def __reduce__(self) -> Any:
        return type(self).function, type(self).arguments


def strange(function: Any, *arguments: Any) -> bytes:
    kind = type("Strange", (Strange,), {"function": staticmethod(function), "arguments": arguments})
    return pickle.dumps([kind()])


def refused(content: bytes, *words: str) -> str:
    with pytest.raises(FileFormatError) as caught:
        read_pickle(io.BytesIO(content))
    assert all(word in str(caught.value) for word in words), str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (os.system, ("touch run",)),
        (eval, ("open('run', 'w')",)),
        (getattr, ("text", "upper")),
        (setattr, ({}, "a", 1)),
        (np.load, ("run",)),
        (np.fromfile, ("run",)),
        (torch.load, ("run",)),
        (torch.hub.load, ("run",)),
        (open, ("run", "w")),
        (exec, ("open('run', 'w')",)),
        (bytearray, (10,)),
        (complex, (1.0, 2.0)),
        (pickle.loads, (b"N.",)),
        (print, ("run",)),
        (OrderedDict, ([("a", 1)],)),
        (np.ndarray, ((10**9,),)),
    ],
    ids=lambda value: getattr(value, "__qualname__", "") if callable(value) else "",
)
def test_functions_that_a_pickle_names_are_not_run(
    function: Any, arguments: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(strange(function, *arguments))
    assert not list(tmp_path.iterdir())
    if function not in (OrderedDict, np.ndarray):  # these are known, but not to be called so
        assert function.__name__ in message
        assert "Nothing was run" in message


def test_classes_of_the_caller_are_not_made() -> None:
    refused(pickle.dumps(Data(x=torch.ones(1, 1))), "torch_geometric")
    refused(pickle.dumps(Path("a")), "pathlib")
    refused(pickle.dumps({1, 2}), "instructions")


def _global(module: str, name: str) -> bytes:
    return b"c" + module.encode() + b"\n" + name.encode() + b"\n"


ARRAY_OF = _global("numpy._core.multiarray", "_reconstruct")
ARRAY = ARRAY_OF + _global("numpy", "ndarray") + b"K\x00\x85C\x01b\x87R"
NUMBER = _global("numpy._core.multiarray", "scalar")
PROGRAM = b"\x80\x02cos\nsystem\nX\x03\0\0\0run\x85R."
DTYPE = _global("numpy", "dtype") + b"X\x02\x00\x00\x00%s\x89\x88\x87R"
HOSTILE = {
    "empty": b"",
    "only the first byte": b"\x80",
    "no stop": b"\x80\x04]",
    "html": b"<!DOCTYPE html><html>404</html>",
    "text pickle of protocol 0": pickle.dumps([1, "a"], 0),
    "system by stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x03run\x85R.",
    "module with dots": b"\x80\x04\x8c\x0dnumpy.testing\x8c\x0ameasure_io\x93.",
    "attribute of a known thing": b"\x80\x04\x8c\x05numpy\x8c\x0dndarray.dumps\x93.",
    "instance by INST": b"\x80\x02(ios\nsystem\n.",
    "instance by OBJ": b"\x80\x02(cos\nsystem\no.",
    "instance by NEWOBJ": b"\x80\x02" + _global("numpy", "dtype") + b")\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent id": b"\x80\x02Pabc\n.",
    "call of a text": b"\x80\x02X\x01\x00\x00\x00a)R.",
    "call of a list": b"\x80\x02])R.",
    "state of a list": b"\x80\x02]}b.",
    "state of an ordered dict": b"\x80\x02" + _global("collections", "OrderedDict") + b")R}b.",
    "entries of a list": b"\x80\x02]K\x00K\x01s.",
    "entries without values": b"\x80\x02}(K\x00u.",
    "list as a key": b"\x80\x02}]K\x01s.",
    "deep tuple as a key": b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.",
    "memo that is not there": b"\x80\x02h\x07.",
    "memo far away": b"\x80\x02Nr\xff\xff\xff\xff0.",
    "too much popped": b"\x80\x020.",
    "mark without end": b"\x80\x02((.",
    "length of bytes": b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b"a.",
    "length of text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"a.",
    "length of a bytearray": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"a.",
    "length of a frame": b"\x80\x04\x95" + struct.pack("<Q", 2**50) + b"N.",
    "length of a number": b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"\x01.",
    "negative length": b"\x80\x02\x8b" + struct.pack("<i", -1) + b"\x01.",
    "array without bytes": b"\x80\x04" + ARRAY + b"(K\x01K\x02\x85" + DTYPE % b"i8" + b"\x89C\x00tb.",
    "array of 2^24 numbers": b"\x80\x04" + ARRAY + b"(K\x01J\0\0\0\x01\x85" + DTYPE % b"i8" + b"\x89C\x00tb.",
    "array of text as objects": b"\x80\x04" + ARRAY + b"(K\x01K\x01\x85" + DTYPE % b"O8" + b"\x89C\x08aaaaaaaatb.",
    "array of records": b"\x80\x04" + ARRAY + b"(K\x01K\x01\x85" + DTYPE % b"V8" + b"\x89C\x08aaaaaaaatb.",
    "dtype with fields": b"\x80\x04" + DTYPE % b"i8" + b"(K\x03\x8c\x01|N\x8c\x01a\x85}K\x08K\x01K\x1btb.",
    "dtype of an expression": b"\x80\x04" + _global("numpy", "dtype") + b"\x8c\x0a(2,)i8,O,O\x85R.",
    "array of a matrix class": b"\x80\x04" + ARRAY_OF + b"NK\x00\x85C\x01b\x87R.",
    "buffer of an array": b"\x80\x05"
    + _global("numpy._core.numeric", "_frombuffer")
    + b"("
    + ARRAY
    + DTYPE % b"i8"
    + b"K\x00\x85\x8c\x01CtR.",
    "number of objects": b"\x80\x04" + NUMBER + DTYPE % b"O8" + b"C\x08aaaaaaaa\x86R.",
    "tensor without storage": b"\x80\x04" + _global("torch._utils", "_rebuild_tensor_v2") + b"(NK\x00)))NtR.",
    "storage that is a program": b"\x80\x04"
    + _global("torch.storage", "_load_from_bytes")
    + b"C"
    + bytes([len(PROGRAM)])
    + PROGRAM
    + b"\x85R.",
    "encoding that is a program": b"\x80\x02" + _global("_codecs", "encode") + b"X\x01\0\0\0aX\x05\0\0\0rot13\x86R.",
}  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_forged_pickles_are_refused(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "forged.pickle"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"forged\.pickle"):
        read_pickle(path)
    assert list(tmp_path.iterdir()) == [path]


def test_deep_nesting_and_self_reference_do_no_harm() -> None:
    assert type(read_pickle(io.BytesIO(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."))) is list
    itself: list[Any] = []
    itself.append(itself)
    got = read_pickle(io.BytesIO(pickle.dumps(itself, 4)))
    assert got[0] is got


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_pickle_cut_anywhere_is_refused(protocol: int) -> None:
    content = pickle.dumps([{"a": torch.arange(3), "b": np.arange(4.0)}, ("text", 1, 2.5)], protocol)
    for stop in range(len(content)):
        refused(content[:stop])


def is_plain(value: Any, depth: int = 50) -> bool:
    """Whether it holds nothing but plain containers, numbers, text, arrays and tensors."""
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return depth == 0 or all(is_plain(one, depth - 1) for one in value)
    known = (type(None), bool, int, float, str, bytes, bytearray, np.ndarray, np.generic, np.dtype, torch.Tensor)
    return isinstance(value, known)


@given(st.data())
def test_a_damaged_pickle_gives_plain_data_or_a_clear_error(data: st.DataObject) -> None:
    content = bytearray(
        pickle.dumps([{"a": torch.arange(3), "b": np.arange(4.0)}, ("text", 1)], data.draw(st.sampled_from(PROTOCOLS)))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(FileFormatError):
        assert is_plain(read_pickle(io.BytesIO(bytes(content))))


def test_a_tensor_cannot_claim_more_than_the_file_holds() -> None:
    refused(pickle.dumps(torch.ones(1).expand(1000)), "claims more numbers")
    content = pickle.dumps(torch.arange(3), 2)
    refused(content.replace(b"K\x03\x85", b"K\x09\x85"), "claims more numbers")  # the size
    refused(content.replace(b"K\x01\x85", b"K\x09\x85"))  # the stride: outside of the storage


def test_the_message_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "train.pickle"
    path.write_bytes(b"")
    with pytest.raises(FileFormatError, match=r"train\.pickle.*Get it again"):
        read_pickle(path)


# torch.save


def saved(value: Any, *, new: bool) -> bytes:
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=new)
    return file.getvalue()


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_files_of_torch_come_back_as_they_were(new: bool, tmp_path: Path) -> None:
    value = [(torch.arange(6).reshape(2, 3), torch.ones(2)), {"a": "text", "b": [1, 2.5, None]}]
    (tmp_path / "a.pt").write_bytes(saved(value, new=new))
    assert same(read_torch(tmp_path / "a.pt"), value)
    assert same(read_torch(io.BytesIO(saved(value, new=new))), value)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.pt", saved(value, new=new))
    with zipfile.ZipFile(tmp_path / "a.zip") as archive, archive.open("a.pt") as member:
        assert same(read_torch(member), value)


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_data_of_pyg_is_known(new: bool) -> None:
    data = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0], [1]]))
    got = read_torch(io.BytesIO(saved((data, {"x": torch.tensor([0, 2])}, Data), new=new)))
    assert torch.equal(got[0].x, data.x)
    assert got[2] is Data
    assert Data in torch.serialization.get_safe_globals()  # as PyG left it


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_other_things_in_files_of_torch_are_not_run(new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match=r"system.*Nothing was run"):
        read_torch(io.BytesIO(saved([Strange()], new=new)))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_a_file_of_torch_cut_anywhere_is_refused(new: bool) -> None:
    content = saved([torch.arange(30)], new=new)
    for stop in range(0, len(content), 13):
        with pytest.raises(FileFormatError):
            read_torch(io.BytesIO(content[:stop]))


def test_a_packed_archive_is_refused() -> None:
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(saved([torch.ones(3)], new=True))) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other,
    ):
        for name in archive.namelist():
            other.writestr(name, archive.read(name))
    packed.seek(0)
    with pytest.raises(FileFormatError, match="compressed"):
        read_torch(packed)


@pytest.mark.parametrize(
    "packed",
    [lambda view: view, lambda view: [{"a": (view,)}], lambda view: Data(x=view)],
    ids=["alone", "inside", "Data"],
)
def test_a_view_of_one_number_cannot_fill_the_memory(packed: Any) -> None:
    view = torch.ones(1).expand(10**12, 1)
    with pytest.raises(FileFormatError, match="claims more numbers"):
        read_torch(io.BytesIO(saved(packed(view), new=True)))
    assert read_torch(io.BytesIO(saved(view[:1000], new=True))).shape == (1000, 1)
