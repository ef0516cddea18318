"""Features of graphs and molecules in the form that a model takes, or refused with the reason (:class:`Needs`)."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor

from pointset.datasets.molecules.descriptors import FINGERPRINT_BYTES
from pointset.datasets.molecules.parsing import Molecule, MoleculeError, Unreadable
from pointset.encoders.coordinates import checked_features
from pointset.encoders.model import PointModel
from pointset.errors import GraphError, SpecError
from pointset.points.graphs import WHOLE_GRAPH, Features, Graph, WeightKind
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
    edge_weight_offset: int  # what is added to it
    dtype: torch.dtype
    matrix: str
    descriptors: int = 0  # how many numbers of the graph as a whole
    fingerprint: bool = False  # whether fingerprints are compared; graphs without one get an empty one
    rank: int | None = None  # how many eigenpairs; None: all

    @classmethod
    def of(
        cls, model: PointModel, weighted_edges: int | None, edge_weight_offset: int = 0, *, fingerprint: bool = False
    ) -> Needs:
        """The needs of a model from a preset."""
        if model.settings is None:
            raise SpecError("the model was put together by hand; expected one from pointset.PointModel.from_preset")
        dtype = next(model.parameters()).dtype
        node, edge, descriptors = model.settings.node, model.settings.edge, model.settings.descriptors
        weights = weighted_edges, edge_weight_offset
        needs = node, edge, uses_positions(model), *weights, dtype, model.matrix, descriptors, fingerprint, model.rank
        return cls(*needs)

    def of_nodes_and_edges(self) -> Needs:
        """What can be checked for many graphs as if they were one; molecules bring the rest as it is asked for."""
        return self._replace(descriptors=0, fingerprint=False)

    def fit(self, graph: Graph) -> Graph:
        """The graph with exactly the features that the model takes.

        Raises GraphError where it has no nodes, SpecError where features are missing, of another width, out of range or
        not finite.
        """
        features, edges = graph.features, graph.edges.shape[1]
        weights = graph.weights
        if self.weighted_edges is not None:
            weights = _column(features.edge_attr, self.weighted_edges, self.edge_weight_offset, edges).numpy()
        fitted = self._features(features, graph.num_nodes, edges)
        return dataclasses.replace(graph, weights=weights, features=fitted)

    def fit_points(self, points: PointSet) -> PointSet:
        """The same for points, whose edge weights are in their eigenpairs already."""
        if points.matrix != self.matrix:
            raise SpecError(
                f"the points come from matrix={points.matrix!r}, but the model was made for {self.matrix!r}; convert "
                f"with pointset.to_points(graph, matrix={self.matrix!r})"
            )
        carried = Features(**{name: getattr(points, name) for name in Features._fields})
        fitted = self._features(carried, points.num_nodes, points.num_edges)
        edge_index = points.edge_index
        if fitted.edge_attr is not None and edge_index is None:
            if points.num_edges:
                raise SpecError("the points have edge features but no edge_index; make them with pointset.to_points")
            edge_index = torch.empty(2, 0, dtype=torch.long)
        return dataclasses.replace(points.to(self.dtype), **fitted._asdict(), edge_index=edge_index)

    def _features(self, given: Features, nodes: int, edges: int) -> Features:
        if not nodes:
            raise GraphError("the graph has no nodes; expected at least one")
        return Features(
            x=self._columns(given.x, self.node, "node features x", nodes),
            edge_attr=self._columns(given.edge_attr, self.edge, "edge features edge_attr", edges),
            pos=self._positions(given.pos, nodes) if self.positions else None,
            descriptors=self._descriptors(given.descriptors) if self.descriptors else None,
            fingerprint=_or_empty(given.fingerprint) if self.fingerprint else None,
        )

    def _descriptors(self, given: Tensor | None) -> Tensor:
        """(1, c); NaN where one is unknown, for which the model takes the mean of the training part."""
        got = "none" if given is None else f"{tuple(given.shape)}"
        if given is None or given.is_complex() or given.shape != (1, self.descriptors):
            raise SpecError(
                f"the model takes {self.descriptors:,} descriptors of the whole graph, and the graph has {got}; "
                f"expected descriptors of shape (1, {self.descriptors}). Give a SMILES (they are computed), or "
                "the molecule's own as data.descriptors"
            )
        return given.detach().cpu().to(self.dtype)

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


def _or_empty(fingerprint: Tensor | None) -> Tensor:
    """(1, 256) uint8; no bit is set where there is none, which is similar to nothing."""
    if fingerprint is None or fingerprint.shape != (1, FINGERPRINT_BYTES) or fingerprint.dtype != torch.uint8:
        return torch.zeros(1, FINGERPRINT_BYTES, dtype=torch.uint8)
    return fingerprint.detach().cpu()


def uses_positions(model: PointModel) -> bool:
    """Whether the model needs pos."""
    return model.settings is not None and preset_named(model.settings.preset).uses_positions


def _finite(values: Tensor, name: str) -> Tensor:
    if not bool(torch.isfinite(values).all()):
        raise SpecError(f"{name} hold numbers that are not finite; expected finite ones")
    return values


def _column(edge_attr: Tensor | None, column: int, offset: int, edges: int) -> Tensor:
    """(m,) float64: the weights that edge features stand for, as in ``Dataset.with_weighted_edges``."""
    if not edges:
        return torch.empty(0, dtype=torch.float64)
    width = 0 if edge_attr is None else edge_attr.reshape(edges, -1).shape[1]
    if edge_attr is None or column >= width:
        raise SpecError(
            f"the graph has {width} columns of edge features edge_attr, and the model takes its edge weights from "
            f"column {column}, counted from 0"
        )
    weights = edge_attr.detach().cpu().reshape(edges, -1)[:, column].to(torch.float64) + offset
    if bool((weights == 0).any()):
        raise SpecError(
            f"an edge has {-offset} in column {column} of its features, which gives it weight 0 to this model, and an "
            "edge of weight 0 is not an edge; expected other numbers"
        )
    return weights


def unread_error(reason: Unreadable | MoleculeError) -> MoleculeError:
    """Why a SMILES was not read, without the remedy to read leniently: how to read is part of the model."""
    text = reason.reason if isinstance(reason, Unreadable) else str(reason)
    return MoleculeError(text.replace(", or read with lenient=True", ""))


def molecule_graph(molecule: Molecule) -> Graph:
    """The molecule in the form in which graphs are read; its bonds need not be in order."""
    pos = None if molecule.pos is None else torch.from_numpy(molecule.pos).to(torch.float32)
    whole = {name: None if (row := getattr(molecule, name)) is None else torch.from_numpy(row[None])
             for name in WHOLE_GRAPH}  # fmt: skip
    features = Features(torch.from_numpy(molecule.x), torch.from_numpy(molecule.edge_attr), pos, **whole)
    return Graph(molecule.num_nodes, molecule.edges, None, WeightKind.NONE, features)
