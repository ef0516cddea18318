"""Features of graphs from files, made uniform: the same columns on every graph, in flat tensors, with their specs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from pointset.errors import SpecError
from pointset.points.graphs import FlatFeatures, Graph, GraphArrays
from pointset.specs import Categories, Reals, Spec, read_spec

_FIELDS = ("x", "edge_attr", "pos")
_MOST_CATEGORIES = 10_000  # whole numbers beyond are measured or counted, not categories

Widths = tuple[int | None, ...]  # columns of x, edge_attr and pos; None where there are none


def feature_problems(graphs: Sequence[Graph], names: Sequence[str]) -> dict[int, tuple[str, str]]:
    """Graphs that cannot stand beside the others, each with the kind of problem and the reason.

    Expected are the columns that most graphs have; a graph without edges needs no edge features.
    """
    widths = [_widths(graph) for graph in graphs]
    usual = common_widths(graphs)
    problems: dict[int, tuple[str, str]] = {}
    for index, graph in enumerate(graphs):
        if not graph.num_nodes:
            problems[index] = ("no nodes", "the graph has no nodes; expected at least one")
        elif reason := _values_problem(graph):
            problems[index] = ("features that are no finite numbers", reason)
        elif not _fits(widths[index], usual, graph):
            example = names[next(other for other, seen in enumerate(widths) if seen == usual)]
            reason = f"it has {_in_words(widths[index])}; expected {_in_words(usual)}, as most graphs ({example} first)"
            problems[index] = ("other features than most graphs", reason)
    return problems


def common_widths(graphs: Sequence[Graph]) -> Widths:
    """The columns that most graphs have, the earlier where it is a tie; graphs without edges only count among such."""
    with_edges = [graph for graph in graphs if graph.edges.shape[1]]
    counts = Counter(_widths(graph) for graph in with_edges or graphs)
    return counts.most_common(1)[0][0] if counts else (None,) * len(_FIELDS)


def with_flat_features(
    arrays: GraphArrays, graphs: Sequence[Graph], y: Tensor | None, *, y_of_nodes: bool
) -> GraphArrays:
    """The same graphs with their features in flat tensors, (N, c) and (M, c), and these targets."""
    x, edge_attr, pos = (
        None if width is None else torch.cat([_columns(graph, name, width) for graph in graphs])
        for name, width in zip(_FIELDS, common_widths(graphs), strict=True)
    )
    flat = FlatFeatures(
        arrays.num_nodes, arrays.num_edges, x=x, edge_attr=edge_attr, pos=pos, y=y, y_of_nodes=y_of_nodes
    )
    return GraphArrays(
        arrays.num_nodes, arrays.num_edges, arrays.edges, arrays.weights, arrays.weight_kind, features=flat
    )


def fitted(features: Tensor | None, given: object, name: str) -> tuple[Tensor | None, Spec]:
    """Features (rows, c) and their spec; inferred where none is given: whole numbers are categories, others reals.

    Raises:
        SpecError: the features do not fit the spec given.
    """
    if features is None:
        if given is not None:
            raise SpecError(f"got {name}={given!r}, but the graphs carry no such features; leave {name} out")
        return None, None
    spec = _inferred(features) if given is None else read_spec(given, name)
    columns = 0 if spec is None else spec.width
    if features.shape[1] != columns:
        raise SpecError(f"got {name}={spec}; expected {features.shape[1]} columns, as the graphs have")
    if isinstance(spec, Reals):
        return (features if features.is_floating_point() else features.to(torch.float32)), spec
    whole = features.long()
    if features.is_floating_point() and not torch.equal(whole.to(features.dtype), features):
        raise SpecError(f"got {name}={spec}, but the graphs have fractions there; expected Reals({columns})")
    for column, size in enumerate(spec.sizes if isinstance(spec, Categories) else ()):
        low, high = (int(bound) for bound in whole[:, column].aminmax()) if len(whole) else (0, 0)
        if low < 0 or high >= size:
            raise SpecError(f"got {name}={spec}, but column {column} holds {low} to {high}; expected 0 to {size - 1}")
    return whole, spec


def _inferred(features: Tensor) -> Spec:
    if features.is_floating_point():
        return Reals(features.shape[1])
    if not len(features):
        return Categories(*[1] * features.shape[1])
    if int(features.min()) < 0 or int(features.max()) >= _MOST_CATEGORIES:
        return Reals(features.shape[1])
    return Categories(*[int(size) + 1 for size in features.amax(dim=0)])


def _widths(graph: Graph) -> Widths:
    tensors = (getattr(graph.features, name) for name in _FIELDS)
    return tuple(None if tensor is None else math.prod(tensor.shape[1:]) or None for tensor in tensors)


def _fits(widths: Widths, usual: Widths, graph: Graph) -> bool:
    without_edges = not graph.edges.shape[1]
    return all(
        width == expected or (name == "edge_attr" and without_edges)
        for name, width, expected in zip(_FIELDS, widths, usual, strict=True)
    )


def _values_problem(graph: Graph) -> str | None:
    for name in _FIELDS:
        tensor = getattr(graph.features, name)
        if tensor is not None and tensor.is_complex():
            return f"{name} holds complex numbers; expected real ones"
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            return f"{name} holds NaN or infinity; expected finite numbers"
    return None


def _columns(graph: Graph, name: str, width: int) -> Tensor:
    """(rows, width); truth values and narrow types as int64, as PyG has them."""
    tensor = getattr(graph.features, name)
    if tensor is None:  # edge features of a graph without edges
        return torch.zeros(0, width, dtype=torch.int64)
    columns: Tensor = tensor.detach().reshape(tensor.shape[0], width)
    return columns if columns.is_floating_point() else columns.to(torch.int64)


def _in_words(widths: Widths) -> str:
    there = [f"{name} with {width} columns" for name, width in zip(_FIELDS, widths, strict=True) if width]
    return ", ".join(there) or "no features"
