"""Writing point sets into one safetensors file; how it is laid out is said in :mod:`pointset.points.point_files`."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from pointset.errors import FileFormatError
from pointset.files import replacing
from pointset.points.matrices import MATRICES
from pointset.points.point_set import PointSet

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
        (
            one.num_nodes,
            one.num_edges,
            one.rank,
            int(one.weight_kind),
            matrices.index(one.matrix),
            NO_Y if one.y is None else (one.y.shape[0] if one.y.dim() else SCALAR_Y),
        )
        for one in points
    ]
    tensors = {
        name: torch.tensor([count[column] for count in counts], dtype=torch.int64) for column, name in enumerate(COUNTS)
    }
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
        if value.layout is not torch.strided:
            raise FileFormatError(f"{field} is a {value.layout} tensor; expected a dense one. Call .to_dense() first")
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
