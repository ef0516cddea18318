"""A model in a table: its parts, what goes in and out, and how many parameters each has."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn


class Row(NamedTuple):
    """One line of the table."""

    part: str
    kind: str
    shapes: str
    parameters: int


def count(module: nn.Module | None) -> int:
    """Number of trainable numbers."""
    return 0 if module is None else sum(p.numel() for p in module.parameters() if p.requires_grad)


def summarise(model: nn.Module) -> str:
    """The table of a :class:`~pointset.PointModel` as text; B graphs with n nodes and rank r."""
    d = _width(model)
    rows = [Row("scalars", _kind(model.scalars), f"x → s ({d}, B, n)", count(_child(model, "scalars")))]
    coordinates = _child(model, "coordinates")
    function, pairs = getattr(coordinates, "function", None), getattr(coordinates, "pairs", None)
    if function is not None:
        rows.append(Row("coordinates.function", _kind(function), f"Λ (B, r) → f(Λ) ({d}, B, r)", count(function)))
    if pairs is not None:
        rows.append(Row("coordinates.pairs", _kind(pairs), f"edges, distances → e ({d}, B, n, n)", count(pairs)))
    rest = count(coordinates) - count(function) - count(pairs)
    rows.append(Row("coordinates", _kind(coordinates), f"U, f(Λ), e → v ({d}, B, n, r)", rest))
    rows += _encoder_rows(_child(model, "encoder"), d)
    readout = _child(model, "readout")
    rows.append(Row("readout", _kind(readout), _readout_shapes(readout, d), count(readout)))
    return _table(rows, count(model))


def _child(model: nn.Module, name: str) -> nn.Module:
    part = getattr(model, name)
    if not isinstance(part, nn.Module):
        raise TypeError(f"{name} is a {type(part).__name__}; expected a module")
    return part


def _kind(module: object) -> str:
    return type(module).__name__


def _width(model: nn.Module) -> str:
    settings = getattr(model, "settings", None)
    return "d" if settings is None else str(settings.dim)


def _encoder_rows(encoder: nn.Module, d: str) -> list[Row]:
    """A row for each run of equal layers, and one for what the encoder has besides."""
    shapes = f"s, v → s ({d}, B, n), v ({d}, B, n, r)"
    layers = getattr(encoder, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return [Row("encoder", _kind(encoder), shapes, count(encoder))]
    rows: list[Row] = []
    start = 0
    for stop in range(1, len(layers) + 1):
        if stop < len(layers) and count(layers[stop]) == count(layers[start]):
            continue
        name = f"encoder.layers[{start}]" if stop - start == 1 else f"encoder.layers[{start}…{stop - 1}]"
        times = "" if stop - start == 1 else f" × {stop - start}"
        rows.append(Row(name, _kind(layers[start]) + times, shapes, sum(count(layer) for layer in layers[start:stop])))
        start = stop
    if rest := count(encoder) - sum(row.parameters for row in rows):
        rows.append(Row("encoder", _kind(encoder), "", rest))
    return rows


def _readout_shapes(readout: nn.Module, d: str) -> str:
    linear = getattr(readout, "linear", None)
    out = linear.out_features if isinstance(linear, nn.Linear) else "out"
    if getattr(readout, "level", "graph") == "node":
        return f"s ({d}, B, n) → (nodes, {out})"
    return f"s ({d}, B, n) → {getattr(readout, 'pooling', 'pool')} → (graphs, {out})"


def _table(rows: list[Row], total: int) -> str:
    header = ("part", "kind", "shapes", "parameters")
    cells = [header, *((row.part, row.kind, row.shapes, f"{row.parameters:,}") for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    width = max(len(line[3]) for line in cells)
    lines = [
        f"{part:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {number:>{width}}"
        for part, kind, shapes, number in cells
    ]
    lines.insert(1, "─" * len(lines[0]))
    lines += ["─" * len(lines[0]), f"{'total':<{len(lines[0]) - width}}{total:>{width},}"]
    return "\n".join(line.rstrip() for line in lines)
