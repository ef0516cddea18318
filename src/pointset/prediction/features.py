"""Features of graphs and molecules in the form that a model takes, or refused with the reason (:class:`Needs`)."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable
from pointset.encoders.coordinates import checked_features
from pointset.encoders.model import PointModel
from pointset.errors import GraphError, SpecError
from pointset.points.graphs import Features, Graph, WeightKind
from pointset.points.point_set import PointSet
from pointset.registry import preset_named
from pointset.specs import Categories, Reals, Spec

_SPACE = 3


class Needs(NamedTuple):
    """What a model takes of a graph; the rest is ignored, so that graphs of any origin fit together."""

    node: Spec
    edge: Spec
    positions: bool  # whether it uses pos
    weighted_edges: int | None  # the column of edge features that becomes the edge weights
    dtype: torch.dtype
    matrix: str

    @classmethod
    def of(cls, model: PointModel, weighted_edges: int | None) -> Needs:
        """The needs of a model from a preset."""
        if model.settings is None:
            raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
        dtype = next(model.parameters()).dtype
        node, edge = model.settings.node, model.settings.edge
        return cls(node, edge, uses_positions(model), weighted_edges, dtype, model.matrix)

    def fit(self, graph: Graph) -> Graph:
        """The graph with exactly the features that the model takes.

        Raises GraphError where it has no nodes, SpecError where features are missing, of another width, out of range or
        not finite.
        """
        features, edges = graph.features, graph.edges.shape[1]
        weights = graph.weights
        if self.weighted_edges is not None:
            weights = _column(features.edge_attr, self.weighted_edges, edges).numpy()
        fitted = self._features(features.x, features.edge_attr, features.pos, graph.num_nodes, edges)
        return dataclasses.replace(graph, weights=weights, features=fitted)

    def fit_points(self, points: PointSet) -> PointSet:
        """The same for points, whose edge weights are in their eigenpairs already."""
        if points.matrix != self.matrix:
            raise SpecError(
                f"the points come from matrix={points.matrix!r}, but the model was made for {self.matrix!r}; convert "
                f"with pointset.to_points(graph, matrix={self.matrix!r})"
            )
        fitted = self._features(points.x, points.edge_attr, points.pos, points.num_nodes, points.num_edges)
        edge_index = points.edge_index
        if fitted.edge_attr is not None and edge_index is None:
            if points.num_edges:
                raise SpecError("the points have edge features but no edge_index; make them with pointset.to_points")
            edge_index = torch.empty(2, 0, dtype=torch.long)
        return dataclasses.replace(
            points.to(self.dtype), x=fitted.x, edge_attr=fitted.edge_attr, pos=fitted.pos, y=None, edge_index=edge_index
        )

    def _features(
        self, x: Tensor | None, edge_attr: Tensor | None, pos: Tensor | None, nodes: int, edges: int
    ) -> Features:
        if not nodes:
            raise GraphError("the graph has no nodes; expected at least one")
        return Features(
            x=self._columns(x, self.node, "node features x", nodes),
            edge_attr=self._columns(edge_attr, self.edge, "edge features edge_attr", edges),
            pos=self._positions(pos, nodes) if self.positions else None,
        )

    def _columns(self, values: Tensor | None, spec: Spec, name: str, rows: int) -> Tensor | None:
        """(rows, c): int64 categories or real numbers of the model's type; None where the model takes none."""
        if spec is None:
            return None
        if not rows:
            return torch.empty(0, spec.width, dtype=torch.long if isinstance(spec, Categories) else self.dtype)
        if values is None or values.is_complex():
            return checked_features(None, spec, name)
        columns = values.detach().cpu().reshape(rows, -1)
        if isinstance(spec, Categories) and not columns.is_floating_point() and columns.shape[1] == spec.width:
            whole = columns.long()
            if bool((whole >= 0).all() & (whole < torch.tensor(spec.sizes)).all()):
                return whole
        columns = checked_features(columns, spec, name)  # says what is wrong
        return _finite(columns.to(self.dtype), name) if isinstance(spec, Reals) else columns

    def _positions(self, pos: Tensor | None, nodes: int) -> Tensor:
        if pos is None or pos.is_complex():
            raise SpecError("the model uses positions in space, but the graph carries no pos; expected pos (n, 3)")
        if pos.shape != (nodes, _SPACE):
            raise SpecError(f"pos has shape {tuple(pos.shape)}; expected ({nodes}, {_SPACE})")
        return _finite(pos.detach().cpu().to(self.dtype), "pos")


def uses_positions(model: PointModel) -> bool:
    """Whether the model needs pos."""
    return model.settings is not None and preset_named(model.settings.preset).uses_positions


def _finite(values: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise SpecError(f"{name} hold numbers that are not finite; expected finite ones")
    return values


def _column(edge_attr: Tensor | None, column: int, edges: int) -> Tensor:
    """(m,) float64: the weights that edge features stand for, as in ``Dataset.with_weighted_edges``."""
    if not edges:
        return torch.empty(0, dtype=torch.float64)
    width = 0 if edge_attr is None else edge_attr.reshape(edges, -1).shape[1]
    if edge_attr is None or column >= width:
        raise SpecError(
            f"the graph has {width} columns of edge features edge_attr, and the model takes its edge weights from "
            f"column {column}, counted from 0"
        )
    weights = edge_attr.detach().cpu().reshape(edges, -1)[:, column].to(torch.float64)
    if bool((weights == 0).any()):
        raise SpecError(
            f"an edge has 0 in column {column} of its features, which is its weight to this model, and an edge of "
            "weight 0 is not an edge; expected other numbers"
        )
    return weights


def unread_error(reason: Unreadable | MoleculeError) -> MoleculeError:
    """Why a SMILES was not read, without the remedy to read leniently: how to read is part of the model."""
    text = reason.reason if isinstance(reason, Unreadable) else str(reason)
    return MoleculeError(text.replace(", or read with lenient=True", ""))


def molecule_graph(molecule: Molecule) -> Graph:
    """The molecule in the form in which graphs are read; its bonds need not be in order."""
    pos = None if molecule.pos is None else torch.from_numpy(molecule.pos).to(torch.float32)
    features = Features(torch.from_numpy(molecule.x), torch.from_numpy(molecule.edge_attr), pos)
    return Graph(molecule.num_nodes, molecule.edges, None, WeightKind.NONE, features)
