"""PyG files (.pt): what ``torch.save`` wrote of a Data, a list of them, or an InMemoryDataset. Holds everything.

Such files are pickles, and a pickle can run any program. Nothing is unpickled but tensors, plain containers and PyG's
own Data (``torch.load(weights_only=True)``).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.separate import separate

from pointset.arrays import Flags
from pointset.datasets.graph_files.formats import GraphRecord, shown_name
from pointset.datasets.safe_pickle import claims_too_much, load_tensors
from pointset.datasets.splits.parts import PARTS
from pointset.errors import FileFormatError, GraphError
from pointset.files import open_binary
from pointset.points.graphs import Graph, tensor_fault

_TENSORS = ("x", "edge_index", "edge_attr", "edge_weight", "pos", "y")
_MASKS = {f"{part}_mask": part for part in PARTS}
_KNOWN = {*_TENSORS, *_MASKS, "num_nodes", "reconstruction_error"}
_EXPECTED = "expected a torch_geometric.data.Data, a list of them, or the (data, slices) of an InMemoryDataset"


def read(path: Path) -> Iterator[GraphRecord]:
    """A record for each Data; names count from 0, as Python does."""
    name = shown_name(path)
    content = _loaded(path)
    if isinstance(content, Data):
        yield _record(name, content)
    elif isinstance(content, list) and content:
        yield from (_record(f"{name}[{index}]", data) for index, data in enumerate(content))
    elif isinstance(content, tuple) and len(content) in (2, 3):
        yield from _from_dataset(name, *content[:2])
    else:
        raise FileFormatError(f"{name} holds {_type_name(content)}; {_EXPECTED}")


def write(path: Path, graphs: Sequence[Graph], names: Sequence[str]) -> None:
    """A list of Data, each with both directions of every edge; names have no place."""
    content = io.BytesIO()  # to a file torch writes by itself, and a full disk is an "enforce fail"
    torch.save([as_data(graph) for graph in graphs], content)
    path.write_bytes(content.getbuffer())


def as_data(graph: Graph) -> Data:
    """The graph in PyG's form."""
    low, high = torch.from_numpy(graph.edges.copy())
    off = low != high
    source, target = torch.cat([low, high[off]]), torch.cat([high, low[off]])
    order = (source * max(graph.num_nodes, 1) + target).argsort()
    data = Data(edge_index=torch.stack([source, target])[:, order], num_nodes=graph.num_nodes)

    def both_directions(rows: Tensor) -> Tensor:
        return torch.cat([rows, rows[off]])[order]

    if graph.weights is not None:
        data.edge_weight = both_directions(torch.from_numpy(graph.weights.copy()))
    for name, value in graph.features._asdict().items():
        if value is not None:
            data[name] = both_directions(value) if name == "edge_attr" else value
    return data


def _loaded(path: Path) -> Any:
    name = shown_name(path)
    try:
        with open_binary(path) as file, zipfile.ZipFile(file) as archive:
            packed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
    except FileFormatError:  # not a regular file
        raise
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        raise FileFormatError(
            f"{name} is not a file of torch.save; {_EXPECTED}. It is damaged, cut short, of another kind, or from "
            "before PyTorch 1.6: then load and save it again"
        ) from None
    if packed:
        raise FileFormatError(f"{name} is a compressed archive; {_EXPECTED}, which torch.save leaves uncompressed")
    try:
        return load_tensors(path)
    except Exception as error:  # whatever a forged pickle provokes
        reason = str(error).partition("\n")[0] or type(error).__name__
    try:
        strange = sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # not even that can be read
        strange = []
    if not strange:
        raise FileFormatError(f"{name} cannot be loaded ({reason}); {_EXPECTED}")
    raise FileFormatError(
        f"{name} holds {', '.join(strange[:3])}; {_EXPECTED}. Nothing was loaded: to rebuild other objects, code from "
        "the file would have to run. If you trust the file, load it in Python and save a list of Data"
    )


def _from_dataset(name: str, data: Any, slices: Any) -> Iterator[GraphRecord]:
    whole = Data.from_dict(data) if isinstance(data, dict) else data
    if not isinstance(whole, Data):
        raise FileFormatError(f"{name} holds a pair that starts with {_type_name(data)}; {_EXPECTED}")
    if slices is None:  # a dataset of one graph
        yield _record(name, whole)
        return
    if not isinstance(slices, dict) or not all(isinstance(value, Tensor) for value in slices.values()) or not slices:
        raise FileFormatError(f"{name} holds slices that are {_type_name(slices)}; {_EXPECTED}")
    tensors = [(f"{key} of the slices", value) for key, value in slices.items()]
    tensors += [(key, value) for key, value in whole.to_dict().items() if isinstance(value, Tensor)]
    for key, value in tensors:
        if fault := tensor_fault(value):
            raise FileFormatError(f"{name}: {key} is {fault}")
        if claims_too_much(value):
            raise FileFormatError(f"{name} is damaged: a tensor claims more numbers than the file holds")
    for index in range(len(next(iter(slices.values()))) - 1):
        label = f"{name}[{index}]"
        try:
            one = separate(Data, batch=whole, idx=index, slice_dict=slices, decrement=False)
        except Exception as error:  # slices that do not fit the tensors
            yield GraphRecord(label, problem=f"cannot be cut out of the dataset ({type(error).__name__}: {error})")
            continue
        yield _record(label, one)


def _record(name: str, data: Any) -> GraphRecord:
    if not isinstance(data, Data):
        return GraphRecord(name, problem=f"got {_type_name(data)}; expected a torch_geometric.data.Data")
    try:
        content = data.to_dict()
        fields = _checked_fields(content)
        masks = masks_of(content)
    except GraphError as error:
        return GraphRecord(name, problem=str(error))
    except Exception as error:  # a Data that was forged, or written by a PyG that had other insides
        return GraphRecord(name, problem=f"a Data that cannot be read ({type(error).__name__}: {error})")
    ignored = tuple(sorted(str(key) for key in set(content) - _KNOWN))
    return GraphRecord(name, Data(**fields), ignored=ignored, masks=masks)


def masks_of(content: Mapping[str, Any]) -> dict[str, Flags] | None:
    """Part → (n, F) of ``train_mask``, ``val_mask`` and ``test_mask``, (n,) or of several splits (n, F); None without.

    Raises:
        GraphError: they are not truth values, or not of one shape.
    """
    found = {}
    for name, part in _MASKS.items():
        mask = content.get(name)
        if mask is None:
            continue
        if not isinstance(mask, Tensor) or tensor_fault(mask) or claims_too_much(mask) or mask.dtype != torch.bool:
            raise GraphError(f"{name} is {_type_name(mask)}; expected a tensor of truth values")
        if mask.dim() not in (1, 2):
            raise GraphError(f"{name} has shape {tuple(mask.shape)}; expected (nodes,) or (nodes, splits)")
        found[part] = mask.reshape(len(mask), -1).numpy()
    if not found:
        return None
    first = next(iter(found.values()))
    if any(mask.shape != first.shape for mask in found.values()):
        shapes = ", ".join(str(mask.shape) for mask in found.values())
        raise GraphError(f"the masks of nodes have the shapes {shapes}; expected the same")
    return {part: found.get(part, np.zeros_like(first)) for part in PARTS}


def _checked_fields(content: dict[str, Any]) -> dict[str, Any]:
    fields = {key: value for key, value in content.items() if key in {*_TENSORS, "num_nodes"}}
    for key in _TENSORS:
        value = fields.get(key)
        if isinstance(value, Tensor):
            if fault := tensor_fault(value):
                raise GraphError(f"{key} is {fault}")
            if claims_too_much(value):
                raise GraphError(f"{key} of shape {tuple(value.shape)} claims more numbers than the file holds")
            fields[key] = value.detach().as_subclass(Tensor)
    count = fields.get("num_nodes")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int)):
        raise GraphError(f"num_nodes is {_type_name(count)}; expected a whole number")
    return fields


def _type_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
