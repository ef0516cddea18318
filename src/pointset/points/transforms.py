"""The conversion and the encodings as PyG transforms: one line in a user's pipeline."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from pointset.errors import MatrixError, did_you_mean
from pointset.points.convert import to_points
from pointset.points.encodings import ENCODINGS
from pointset.points.matrices import DEFAULT_MATRIX, matrix_named
from pointset.points.point_set import check_floating_point
from pointset.points.solve import check_rank
from pointset.points.spectra import DEFAULT_WHICH, Which, check_which
from pointset.points.stale import edges_digest


class ToPoints(BaseTransform):
    """Add ``data.points``, the :class:`~pointset.PointSet` of the graph; a PyG batch collects them in a list.

    It comes last: a model refuses a batch whose graphs have been changed since (edges, weights, features, positions; or
    a subgraph was taken), as their points would still be those of the old graphs.

    >>> dataset = TUDataset(root, "MUTAG", transform=pointset.ToPoints())  # doctest: +SKIP
    """

    def __init__(
        self,
        matrix: str = DEFAULT_MATRIX,
        rank: int | None = None,
        dtype: torch.dtype = torch.float64,
        which: Which = DEFAULT_WHICH,
    ) -> None:
        check_floating_point(dtype)
        check_rank(rank)
        self.matrix = matrix_named(matrix).name
        self.rank = rank
        self.which = check_which(which, rank)
        self.dtype = dtype

    def forward(self, data: Data) -> Data:
        """PyG has made a shallow copy already, so the user's object stays as it is."""
        points = to_points(data, matrix=self.matrix, rank=self.rank, which=self.which, dtype=self.dtype)
        data.points = dataclasses.replace(points, edges_digest=edges_digest(data))
        return data

    def __repr__(self) -> str:
        # PyG tells by it whether a processed dataset is still the one asked for, so it says everything.
        return f"ToPoints(matrix={self.matrix!r}, rank={self.rank}, which={self.which!r}, dtype={self.dtype})"


class AddEncoding(BaseTransform):
    """Add a structural encoding of :mod:`pointset.encodings` to a PyG graph.

    Args:
        name: ``random_walk``, ``heat_kernel``, ``resistance_distance``, ``shortest_path``, ….
        on: where it goes. ``"nodes"``: the diagonal (or the node values), (n, 1). ``"edges"``: the values at
            ``edge_index``, (m, 1). ``"pairs"``: all pairs, (n², 1), beside ``pair_index`` (2, n²), which PyG batches
            correctly. Default: nodes for encodings of nodes, pairs for the others.
        attribute: the attribute to write, by default the encoding's name.
        arguments: passed on, such as ``steps=4`` or ``t=0.5``.

    >>> transform = pointset.AddEncoding("random_walk", steps=4, on="nodes")  # doctest: +SKIP
    """

    def __init__(
        self,
        name: str,
        *,
        on: Literal["nodes", "edges", "pairs"] | None = None,
        attribute: str | None = None,
        **arguments: Any,
    ) -> None:
        if name not in ENCODINGS:
            raise MatrixError(
                f"got encoding {name!r}; expected one of {', '.join(ENCODINGS)}{did_you_mean(name, list(ENCODINGS))}"
            )
        if on not in (None, "nodes", "edges", "pairs"):
            raise MatrixError(f"got on={on!r}; expected 'nodes', 'edges' or 'pairs'")
        try:
            inspect.signature(ENCODINGS[name]).bind(None, **arguments)
        except TypeError as error:
            raise MatrixError(f"the encoding {name!r} got {arguments or 'no arguments'}: {error}") from None
        self.name, self.on, self.attribute, self.arguments = name, on, attribute or name, arguments

    def forward(self, data: Data) -> Data:
        """Compute the encoding of this graph and attach it."""
        encoding = ENCODINGS[self.name](data, **self.arguments).to(torch.get_default_dtype())
        place = self.on or ("nodes" if encoding.dim() == 1 else "pairs")
        if encoding.dim() == 1 and place != "nodes":
            raise MatrixError(f"{self.name} is an encoding of nodes; expected on='nodes', got {place!r}")
        if place == "pairs":
            count = encoding.shape[0]
            data.pair_index = torch.cartesian_prod(torch.arange(count), torch.arange(count)).mT.reshape(2, -1)
        data[self.attribute] = _values(encoding, place, data)
        return data

    def __repr__(self) -> str:
        settings = {"on": self.on, "attribute": self.attribute, **self.arguments}
        return f"AddEncoding({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in settings.items())])})"


def _values(encoding: Tensor, place: str, data: Data) -> Tensor:
    if place == "nodes":
        return (encoding if encoding.dim() == 1 else encoding.diagonal()).reshape(-1, 1)
    if place == "edges":
        return encoding[data.edge_index[0], data.edge_index[1]].reshape(-1, 1)
    return encoding.reshape(-1, 1)
