"""Point sets in one file: :func:`write_points` and :func:`read_points`.

The file is a safetensors file: plain arrays, nothing that could run. What all graphs have is one flat array each; what
differs from graph to graph (the type of the eigenpairs, features that some have and others lack, their widths) lies in
*blocks*: all values of one type and width, one graph after the other. ``x.block`` names the block of each graph, -1
for none, and ``x.0``, ``x.1``, … are the blocks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from pointset.arrays import Flags, Integers
from pointset.errors import FileFormatError
from pointset.files import open_safetensors, replacing
from pointset.points.graphs import MAX_NODES, LazySequence, WeightKind, starts, tensor_fault
from pointset.points.matrices import MATRICES
from pointset.points.point_set import PointSet, Truncation

FORMAT = "pointset points"
VERSION = 1  # raise it when an older reader would misunderstand the file
COUNTS = ("num_nodes", "num_edges", "ranks", "weight_kind", "matrix", "y_rows")  # (G,) int64 each
NO_Y, SCALAR_Y = 0, -1  # what y_rows says of a graph without y, and of one whose y has no axis

# field: how it is cut into rows for its block
FIELDS: dict[str, Callable[[PointSet], Tensor | None]] = {
    "eigenvalues": lambda points: points.eigenvalues,
    "eigenvectors": lambda points: points.eigenvectors.reshape(-1),  # flat: every graph has its own width r
    "degrees": lambda points: points.degrees,
    "x": lambda points: points.x,
    "pos": lambda points: points.pos,
    "edge_index": lambda points: None if points.edge_index is None else points.edge_index.mT,
    "edge_attr": lambda points: points.edge_attr,
    "edge_weight": lambda points: points.edge_weight,
    "y": lambda points: None if points.y is None else points.y.reshape(points.y.shape or (1,)),
}


def write_points(path: str | Path, points: Sequence[PointSet], names: Sequence[str] | None = None) -> None:
    """Write point sets with all they carry; the file appears whole or not at all.

    Args:
        path: by custom it ends in ``.safetensors``.
        points: any number, of any matrix, type and features.
        names: one for each, by default its position.
    """
    names = [str(index) for index in range(len(points))] if names is None else list(names)
    if len(names) != len(points):
        raise FileFormatError(f"got {len(names)} names for {len(points)} point sets; expected one for each")
    tensors = _tensors(list(points), names)
    checksums = {name: checksum_of(tensor) for name, tensor in tensors.items()}
    metadata = {"format": FORMAT, "version": str(VERSION), "checksums": json.dumps(checksums)}
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def _tensors(points: list[PointSet], names: list[str]) -> dict[str, Tensor]:
    matrices = list(MATRICES)
    counts = [
        {
            "num_nodes": one.num_nodes,
            "num_edges": one.num_edges,
            "ranks": one.rank,
            "weight_kind": int(one.weight_kind),
            "matrix": matrices.index(one.matrix),
            "y_rows": NO_Y if one.y is None else (one.y.shape[0] if one.y.dim() else SCALAR_Y),
        }
        for one in points
    ]
    tensors = {name: torch.tensor([count[name] for count in counts], dtype=torch.int64) for name in COUNTS}
    missing = (torch.nan,) * 3
    truncation = [missing if one.truncation is None else tuple(one.truncation) for one in points]
    tensors["truncation"] = torch.tensor(truncation, dtype=torch.float64).reshape(-1, 3)
    tensors["names"] = _as_bytes(names)
    tensors["matrix_names"] = _as_bytes(matrices)
    for field, rows in FIELDS.items():
        tensors.update(_blocks(field, [rows(one) for one in points]))
    return tensors


def _blocks(field: str, values: list[Tensor | None]) -> dict[str, Tensor]:
    parts: dict[tuple[torch.dtype, torch.Size], list[Tensor]] = {}
    number: dict[tuple[torch.dtype, torch.Size], int] = {}
    block = []
    for value in values:
        if value is None:
            block.append(-1)
            continue
        if fault := tensor_fault(value):
            raise FileFormatError(f"{field} is {fault}")
        signature = (value.dtype, value.shape[1:])
        parts.setdefault(signature, []).append(value.detach().cpu())
        block.append(number.setdefault(signature, len(number)))
    joined = {f"{field}.{index}": torch.cat(part) for index, part in enumerate(parts.values())}
    return {f"{field}.block": torch.tensor(block, dtype=torch.int64), **joined}


def _as_bytes(strings: list[str]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(strings).encode()), dtype=torch.uint8)


def checksum_of(tensor: Tensor) -> int:
    """CRC-32 of the bytes: safetensors itself would not notice a flipped bit."""
    return zlib.crc32(tensor.reshape(-1).view(torch.uint8).numpy().data) if tensor.numel() else 0


class _Block(NamedTuple):
    """The values of one field, and where each graph's begin."""

    block: Integers  # (G,) -1 for none
    start: Integers  # (G,) first row in the block
    rows: Integers  # (G,)
    values: list[Tensor]

    def of(self, graph: int) -> Tensor | None:
        if self.block[graph] < 0:
            return None
        start = int(self.start[graph])
        return self.values[int(self.block[graph])][start : start + int(self.rows[graph])].clone()


class PointsInFile(LazySequence[PointSet]):
    """The point sets of a file; each :class:`PointSet` is made when it is asked for."""

    def __init__(self, counts: dict[str, Integers], matrices: list[str], truncation: Tensor, fields: dict[str, _Block]):
        self._counts = counts
        self._matrices = matrices
        self._truncation = truncation
        self._fields = fields

    @property
    def num_nodes(self) -> Integers:
        """(G,) n of each graph."""
        return self._counts["num_nodes"]

    @property
    def ranks(self) -> Integers:
        """(G,) r of each graph."""
        return self._counts["ranks"]

    @property
    def matrices(self) -> list[str]:
        """The matrices that occur, in alphabetical order."""
        return sorted({self._matrices[index] for index in np.unique(self._counts["matrix"])})

    def __len__(self) -> int:
        return len(self.num_nodes)

    def item(self, position: int) -> PointSet:
        """One point set, copied out of the file's arrays."""
        count = {name: int(values[position]) for name, values in self._counts.items()}
        value = {name: block.of(position) for name, block in self._fields.items()}
        eigenvalues, eigenvectors = value.pop("eigenvalues"), value.pop("eigenvectors")
        edge_index, y = value.pop("edge_index"), value.pop("y")
        if eigenvalues is None or eigenvectors is None:  # _check_fields has made sure of both
            raise FileFormatError(f"graph {position} has no eigenpairs")
        left_out = self._truncation[position].tolist()
        return PointSet(
            eigenvalues=eigenvalues,
            eigenvectors=eigenvectors.view(count["num_nodes"], count["ranks"]),
            matrix=self._matrices[count["matrix"]],
            num_edges=count["num_edges"],
            weight_kind=WeightKind(count["weight_kind"]),
            edge_index=None if edge_index is None else edge_index.mT.contiguous(),
            y=y[0] if y is not None and count["y_rows"] == SCALAR_Y else y,
            truncation=None if np.isnan(left_out[0]) else Truncation(*left_out),
            edges_digest=None,
            **value,
        )


def read_points(path: str | Path) -> tuple[PointsInFile, list[str]]:
    """The point sets of a file and their names. Every number in it is checked before it is used.

    Raises:
        FileFormatError: the file is damaged, not a file of points, or written by a newer pointset.
    """
    with _damage_named(Path(path)):
        tensors = _checked_tensors(path)
        counts = {name: _integers(tensors, name) for name in COUNTS}
        names, matrices = _strings(tensors, "names"), _strings(tensors, "matrix_names")
        truncation = tensors.pop("truncation")
        _check_counts(counts, len(names), matrices, truncation)
        no_weights = torch.full((len(names),), -1, dtype=torch.int64)
        tensors.setdefault("edge_weight.block", no_weights)  # files of before it have none
        fields = {field: _read_field(tensors, field, _rows(field, counts)) for field in FIELDS}
        _check_fields(fields, counts, truncated=~truncation[:, 0].isnan().numpy())
        return PointsInFile(counts, matrices, truncation, fields), names


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"{path.name}: {error}") from None
    except SafetensorError as error:
        raise FileFormatError(
            f"{path.name} is not a readable safetensors file ({error}); expected points written by pointset. It is "
            "damaged, cut short or of another kind: make it again with `pointset convert`"
        ) from None
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        raise FileFormatError(
            f"{path.name} is damaged ({type(error).__name__}: {error}). Make it again with `pointset convert`"
        ) from None


def _damaged(what: str) -> FileFormatError:
    return FileFormatError(f"the file is damaged: {what}. Make it again with `pointset convert`")


def _checked_tensors(path: str | Path) -> dict[str, Tensor]:
    with open_safetensors(path, "pt") as file:
        metadata = file.metadata() or {}
        if metadata.get("format") != FORMAT:
            raise FileFormatError(
                "a safetensors file, but not one of points; expected a file written by `pointset convert` or "
                "pointset.points.point_files.write_points"
            )
        version = metadata.get("version", "")
        if not version.isdecimal() or int(version) > VERSION:
            raise FileFormatError(
                f"written in version {version!r} of the format; this pointset reads up to version {VERSION}. Update "
                "pointset, or write the file again with this one"
            )
        tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no dict
    checksums: dict[str, Any] = json.loads(metadata["checksums"])
    if set(checksums) != set(tensors):
        raise _damaged("arrays are missing")
    for name, tensor in tensors.items():
        if checksums[name] != checksum_of(tensor):
            raise _damaged(f"{name!r} does not match its checksum")
    return tensors


def _integers(tensors: dict[str, Tensor], name: str) -> Integers:
    tensor = tensors.pop(name)
    if tensor.dtype != torch.int64 or tensor.dim() != 1:
        raise _damaged(f"{name!r} is {tensor.dtype} of shape {tuple(tensor.shape)} instead of a row of int64")
    array: Integers = tensor.numpy()
    return array


def _strings(tensors: dict[str, Tensor], name: str) -> list[str]:
    tensor = tensors.pop(name)
    if tensor.dtype != torch.uint8:
        raise _damaged(f"{name!r} is {tensor.dtype} instead of bytes")
    strings = json.loads(tensor.numpy().tobytes())
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise _damaged(f"{name!r} is not a list of strings")
    return strings


def _check_counts(counts: dict[str, Integers], graphs: int, matrices: list[str], truncation: Tensor) -> None:
    nodes = counts["num_nodes"]
    allowed: dict[str, tuple[int, int | Integers]] = {
        "num_nodes": (0, MAX_NODES),
        "num_edges": (0, MAX_NODES**2 // 2),
        "ranks": (0, nodes),
        "weight_kind": (0, len(WeightKind) - 1),
        "matrix": (0, len(matrices) - 1),
        "y_rows": (SCALAR_Y, MAX_NODES),
    }
    for name, (lowest, highest) in allowed.items():
        if len(counts[name]) != graphs:
            raise _damaged(f"{name!r} has {len(counts[name])} entries for {graphs} graphs")
        if ((counts[name] < lowest) | (counts[name] > highest)).any():
            raise _damaged(f"{name!r} has a number out of range")
    if truncation.dtype != torch.float64 or truncation.shape != (graphs, 3):
        raise _damaged(f"'truncation' has shape {tuple(truncation.shape)}")
    if unknown := {matrices[index] for index in np.unique(counts["matrix"])} - set(MATRICES):
        raise FileFormatError(
            f"points of the matrix {sorted(unknown)[0]!r}; this pointset knows {', '.join(MATRICES)}. Update pointset"
        )


def _rows(field: str, counts: dict[str, Integers]) -> Integers:
    """How many rows of its block each graph's value takes."""
    if field == "eigenvectors":
        return counts["num_nodes"] * counts["ranks"]  # each is below 2³¹
    if field == "y":
        return np.abs(counts["y_rows"])  # a scalar takes one row
    if field.startswith("edge_"):
        return counts["num_edges"]
    return counts["ranks" if field == "eigenvalues" else "num_nodes"]


def _read_field(tensors: dict[str, Tensor], field: str, rows: Integers) -> _Block:
    block = _integers(tensors, f"{field}.block")
    values = [tensors.pop(f"{field}.{index}") for index in range(sum(name.startswith(f"{field}.") for name in tensors))]
    if len(block) != len(rows) or ((block < -1) | (block >= len(values))).any():
        raise _damaged(f"'{field}.block' names a block that is not there")
    start = np.zeros_like(rows)
    for index, value in enumerate(values):
        mine = np.flatnonzero(block == index)
        length = value.shape[0] if value.dim() else -1
        if sum(rows[mine].tolist()) != length:  # Python's integers cannot overflow
            raise _damaged(f"'{field}.{index}' has {length} rows, and the graphs claim {sum(rows[mine].tolist())}")
        start[mine] = starts(rows[mine])
    return _Block(block, start, rows, values)


def _check_fields(fields: dict[str, _Block], counts: dict[str, Integers], truncated: Flags) -> None:
    values, vectors = fields["eigenvalues"], fields["eigenvectors"]
    if (values.block < 0).any() or (values.block != vectors.block).any():
        raise _damaged("a graph has no eigenpairs")
    for one, other in zip(values.values, vectors.values, strict=True):
        if one.dtype != other.dtype or not one.dtype.is_floating_point or one.dim() != 1 or other.dim() != 1:
            raise _damaged(f"eigenpairs of type {one.dtype} and {other.dtype}")
    for name in ("degrees", "edge_weight"):
        if any(numbers.dim() != 1 or not numbers.dtype.is_floating_point for numbers in fields[name].values):
            raise _damaged(f"{name} are not real numbers")
    edges, featured = fields["edge_index"], fields["edge_attr"].block >= 0
    weighted, listed = fields["edge_weight"].block >= 0, edges.block >= 0
    if (listed < (featured | weighted)).any() or (listed > (featured | truncated)).any():
        raise _damaged("edges and the features or weights that belong to them do not go together")
    for index, pairs in enumerate(edges.values):
        mine = np.flatnonzero(edges.block == index)
        limit = np.repeat(counts["num_nodes"][mine], edges.rows[mine])[:, None]
        if pairs.dtype != torch.int64 or pairs.shape[1:] != (2,):
            raise _damaged(f"edges of type {pairs.dtype} and shape {tuple(pairs.shape)}")
        if ((pairs.numpy() < 0) | (pairs.numpy() >= limit)).any():
            raise _damaged("an edge names a node that is not there")
