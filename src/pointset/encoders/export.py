"""Models as files that run without pointset: by torch.export (``.pt2``) or ONNX (``.onnx``), one graph a call.

Inputs are plain tensors with a row for each node, or for each pair of nodes (:func:`inputs_of`): a ``.pt2`` takes the
matrix of edge weights and decomposes Z itself; ONNX has no eigensolver, so an ``.onnx`` takes all n eigenpairs of Z.
Which eigenvalues are zero is then decided inside, by the tolerance of :mod:`pointset.points.spectra`, and their columns
are masked as padding is: the rank never becomes the size of a tensor. What the model computes stands in its own parts,
which are called here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointGroup
from pointset.encoders.buckets import Padding
from pointset.encoders.coordinates import checked_features
from pointset.encoders.layers import Readout
from pointset.encoders.model import PointModel, Settings
from pointset.encoders.products import weighted_sums
from pointset.errors import GraphError, SpecError
from pointset.points.graphs import Graph
from pointset.points.inputs import read_graph
from pointset.points.inverse import to_graph
from pointset.points.matrices import matrix_named
from pointset.points.point_set import PointSet
from pointset.points.spectra import Spectra, decompose, spectra_of
from pointset.registry import preset_named
from pointset.specs import Categories, Spec

Kind = Literal["pt2", "onnx"]
End = Callable[[Tensor], Tensor]  # outputs of the members, (members, rows, out) → what the file gives


class Input(NamedTuple):
    """One tensor that an exported model takes."""

    name: str
    dtype: torch.dtype
    shape: tuple[str | int, ...]  # "n": the number of nodes
    meaning: str
    spec: Spec = None

    def as_plain(self, low: int, high: int) -> dict[str, Any]:
        """For the description of a file for ``low`` to ``high`` nodes."""
        plain: dict[str, Any] = {"name": self.name, "dtype": str(self.dtype).removeprefix("torch.")}
        plain["shape"] = [low if low == high and size == "n" else size for size in self.shape]
        plain["meaning"] = self.meaning
        return plain | ({"categories": list(self.spec.sizes)} if isinstance(self.spec, Categories) else {})


def inputs_of(model: PointModel, kind: Kind) -> list[Input]:
    """What a file of this kind takes, in this order."""
    settings = settings_of(model)
    node, edge, dtype = settings.node, settings.edge, next(model.parameters()).dtype
    weights = Input(
        "adjacency", torch.float64, ("n", "n"), "weights of the edges: symmetric, 1 where none is given, 0: no edge"
    )
    found = [weights]
    if kind == "onnx":
        found = [
            Input("eigenvalues", torch.float64, ("n",), "all eigenvalues of Z in order, computed in double precision"),
            Input("eigenvectors", torch.float64, ("n", "n"), "the eigenvector of eigenvalue i in column i"),
            *([] if edge is None else [weights]),
        ]

    def columns(name: str, spec: Spec, rows: tuple[str, ...], meaning: str) -> list[Input]:
        if spec is None:
            return []
        kind_of = torch.int64 if isinstance(spec, Categories) else dtype
        return [Input(name, kind_of, (*rows, spec.width), meaning, spec)]

    found += columns("x", node, ("n",), "features of the nodes")
    found += columns("edge_attr", edge, ("n", "n"), "features of the edges at [i, j] and [j, i]; elsewhere zeros")
    if preset_named(settings.preset).uses_positions:
        found.append(Input("pos", dtype, ("n", 3), "positions of the nodes"))
    if settings.descriptors:
        found.append(
            Input("descriptors", dtype, (1, settings.descriptors), "numbers of the whole graph; NaN: not known")
        )
    return found


def export_inputs(model: PointModel, graph: Any, kind: Kind = "pt2") -> dict[str, Tensor]:
    """The tensors of one graph, by name, as a file of this kind takes them.

    Args:
        model: the model that was exported.
        graph: a graph of any accepted kind, or a point set.
        kind: ``"pt2"`` or ``"onnx"``.

    Raises:
        SpecError: features are missing or do not fit the model.
        GraphError: it is not a graph that the model takes.

    Example:
        >>> import networkx as nx, pointset
        >>> from pointset.encoders.export import export_inputs
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=1)
        >>> {name: tuple(tensor.shape) for name, tensor in export_inputs(model, nx.path_graph(4), "onnx").items()}
        {'eigenvalues': (4,), 'eigenvectors': (4, 4)}
    """
    if kind not in ("pt2", "onnx"):
        raise SpecError(f"got kind={kind!r}; expected 'pt2' or 'onnx', the kind of the exported file")
    one = _graph_of(graph, model.matrix) if isinstance(graph, PointSet) else read_graph(graph)[0]
    if not one.num_nodes:
        raise GraphError("the graph has no nodes; expected at least one")
    adjacency = torch.from_numpy(_by_pair(one, np.ones(one.edges.shape[1]) if one.weights is None else one.weights))
    given: dict[str, Tensor | None] = {"adjacency": adjacency, "x": one.features.x, "pos": one.features.pos}
    given["descriptors"] = one.features.descriptors
    wanted = inputs_of(model, kind)
    if any(entry.name == "edge_attr" for entry in wanted):
        given["edge_attr"] = _edge_features(one, settings_of(model).edge)
    if kind == "onnx":
        given["eigenvalues"], given["eigenvectors"] = torch.linalg.eigh(matrix_named(model.matrix).dense(adjacency))
    return {entry.name: _fitted(given.get(entry.name), entry, one.num_nodes) for entry in wanted}


def _graph_of(points: PointSet, matrix: str) -> Graph:
    """The graph behind a point set, as an exported model takes the graph itself."""
    if points.matrix != matrix:
        raise SpecError(
            f"the points come from matrix={points.matrix!r}, but the model was made for {matrix!r}; convert with "
            f"pointset.to_points(graph, matrix={matrix!r}), or give the graph"
        )
    graph = read_graph(to_graph(points))[0]
    return replace(graph, features=graph.features._replace(descriptors=points.descriptors))


def _by_pair(graph: Graph, rows: Any) -> Any:
    """(m, …) → (n, n, …), the same at [i, j] and [j, i], zeros elsewhere."""
    pairs = np.zeros((graph.num_nodes, graph.num_nodes, *rows.shape[1:]), dtype=rows.dtype)
    source, target = graph.edges
    pairs[source, target] = rows
    pairs[target, source] = rows
    return pairs


def _edge_features(graph: Graph, spec: Spec) -> Tensor | None:
    rows, edges = graph.features.edge_attr, graph.edges.shape[1]
    if not edges or rows is None:
        return None if edges else torch.zeros(graph.num_nodes, graph.num_nodes, 0 if spec is None else spec.width)
    return torch.from_numpy(_by_pair(graph, rows.detach().cpu().reshape(edges, -1).numpy()))


def _fitted(given: Tensor | None, entry: Input, nodes: int) -> Tensor:
    """The tensor in the type and shape that the file takes, or an error that says what does not fit."""
    if given is not None and given.dim() == 1 and len(entry.shape) == 2:  # one column
        given = given.unsqueeze(-1)
    if entry.spec is not None:
        given = checked_features(given, entry.spec, entry.name)
    shape = tuple(nodes if size == "n" else size for size in entry.shape)
    if given is None or tuple(given.shape) != shape:
        got = "none" if given is None else f"shape {tuple(given.shape)}"
        raise SpecError(
            f"the model takes {entry.name} of shape {shape}, and the graph has {got}; give it as data.{entry.name}"
        )
    return given.detach().cpu().to(entry.dtype)


def settings_of(model: PointModel) -> Settings:
    """Of a model that is known by name, so that its inputs are known."""
    if model.settings is None:
        raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
    return model.settings


# --- what is traced


@dataclass(frozen=True, eq=False)
class _DensePairs(PointGroup):
    """One graph whose edge features stand at all n² pairs, (n², c)."""

    is_edge: Tensor | None = None  # (n²,)

    def of_pairs(self, of_edges: Tensor, elsewhere: Tensor) -> Tensor:
        """(d, n²), of which only those at edges count, and (d, 1) → (d, 1, n, n)."""
        if self.is_edge is None:
            raise SpecError("the model takes edge features, and got none")
        graphs, nodes, _ = self.shape
        return torch.where(self.is_edge, of_edges, elsewhere).view(len(of_edges), graphs, nodes, nodes)

    def sums_over_edges(self, of_edges: Tensor, values: Tensor) -> Tensor:
        """(d, n²), (d, 1, n, k) → (d, 1, n, k)."""
        return weighted_sums(self.of_pairs(of_edges, torch.zeros_like(of_edges[:, :1])), values)


class PlainModel(nn.Module):
    """The members of an ensemble, mostly one, on the plain tensors of one graph."""

    def __init__(self, models: Sequence[PointModel], end: End):
        super().__init__()
        self.models, self.end = nn.ModuleList(models), end
        self.matrix, self.rank, self.dtype = models[0].matrix, models[0].rank, next(models[0].parameters()).dtype

    def _outputs(
        self,
        spectra: Spectra,
        adjacency: Tensor | None,
        x: Tensor | None,
        edge_attr: Tensor | None,
        pos: Tensor | None,
        descriptors: Tensor | None,
    ) -> Tensor:
        kept = spectra.kept  # (1, n)
        columns = kept.to(self.dtype)
        rows = torch.ones_like(columns)
        padding = Padding(rows.sum(-1, keepdim=True), columns.sum(-1, keepdim=True), rows, columns)
        group = _DensePairs(
            index=torch.zeros(1, dtype=torch.int64),
            eigenvalues=torch.where(kept, spectra.eigenvalues, 0.0).to(self.dtype),
            eigenvectors=torch.where(kept.unsqueeze(1), spectra.eigenvectors, 0.0).to(self.dtype),
            x=None if x is None else x.unsqueeze(0),
            edge_attr=None if edge_attr is None else edge_attr.flatten(0, 1),
            pos=None if pos is None else pos.unsqueeze(0),
            padding=padding,
            is_edge=None if adjacency is None else (adjacency != 0).flatten(),
        )
        return self.end(torch.stack([_output(model, group, padding, x, descriptors) for model in self.models]))


def _output(model: Any, group: PointGroup, padding: Padding, x: Tensor | None, descriptors: Tensor | None) -> Tensor:
    """(1, out) or (n, out) of one member."""
    end: Readout = model.readout
    encoded = model.encode(group)
    # All rows are nodes: none has to be taken out, which would make the size of the result unknown.
    rows = end.joined(end.representation(encoded, *([padding] if end.level == "graph" else [])), descriptors)
    outputs = end.head(rows)
    return outputs if model.references is None else outputs + model.references.embedded(x, "node features x").sum(-1)


def _check_sizes(first: Tensor, *pairs: Tensor | None, nodes: Sequence[Tensor | None]) -> None:
    """Tell the tracer that all sizes are the same n."""
    n = first.shape[0]
    for tensors, axes in ((pairs, 2), (nodes, 1)):
        for tensor in tensors:
            for axis in range(0 if tensor is None else axes):
                torch._check(tensor is not None and tensor.shape[axis] == n)  # type: ignore[no-untyped-call]


class OfMatrix(PlainModel):
    """Of a ``.pt2``: eigenpairs are computed inside."""

    def forward(
        self,
        adjacency: Tensor,
        x: Tensor | None = None,
        edge_attr: Tensor | None = None,
        pos: Tensor | None = None,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        """(n, n) and features → outputs."""
        _check_sizes(adjacency, adjacency, edge_attr, nodes=[x, pos])
        spectra = decompose(matrix_named(self.matrix).dense(adjacency.unsqueeze(0)), self.rank)
        return self._outputs(spectra, adjacency, x, edge_attr, pos, descriptors)


class OfEigenpairs(PlainModel):
    """Of an ``.onnx``: eigenpairs are given."""

    def forward(
        self,
        eigenvalues: Tensor,
        eigenvectors: Tensor,
        adjacency: Tensor | None = None,
        x: Tensor | None = None,
        edge_attr: Tensor | None = None,
        pos: Tensor | None = None,
        descriptors: Tensor | None = None,
    ) -> Tensor:
        """(n,), (n, n) and features → outputs."""
        _check_sizes(eigenvalues, eigenvectors, adjacency, edge_attr, nodes=[x, pos])
        spectra = spectra_of(eigenvalues.unsqueeze(0), eigenvectors.unsqueeze(0), self.rank)
        return self._outputs(spectra, adjacency, x, edge_attr, pos, descriptors)
