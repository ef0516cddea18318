"""Graphs with a card, a split and targets (:class:`Dataset`), and how targets are normalised (:class:`TargetScale`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from pointset import notebook
from pointset.arrays import Floats, Integers
from pointset.datasets.card import Card, Level, Metric, Target, Task
from pointset.datasets.splits.parts import Split, check_split
from pointset.datasets.splits.splitters import random_split
from pointset.datasets.table import GraphTable, Limits
from pointset.errors import SpecError
from pointset.points.convert import to_points_many
from pointset.points.graphs import FlatFeatures, GraphArrays, LazySequence
from pointset.points.matrices import DEFAULT_MATRIX
from pointset.points.point_set import PointSets
from pointset.points.store import PointStore
from pointset.text import counted, listed

if TYPE_CHECKING:
    from pointset.datasets.own.rejected import Rejected
    from pointset.datasets.splits import LeakReport

OWN_FILE = "own file"  # the origin of the user's own data
_MOST_SHOWN = 6  # rows and targets that a notebook shows
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class TargetScale:
    """y ↦ (y − mean) / std for each target, and back. Both are float64; a target that never varies is not divided."""

    mean: Tensor  # (k,)
    std: Tensor  # (k,)

    @classmethod
    def of(cls, targets: Tensor) -> TargetScale:
        """The scale of targets (rows,) or (rows, k); missing values (NaN) do not count.

        The standard deviation is that of the rows at hand (division by their number), not an estimate.
        """
        rows = targets.detach().to(torch.float64)
        rows = rows.flatten(1) if rows.dim() > 1 else rows.unsqueeze(1)
        known = ~torch.isnan(rows)
        count = known.sum(0).clamp(min=1)
        mean = torch.where(known, rows, 0.0).sum(0) / count
        std = (torch.where(known, rows - mean, 0.0).square().sum(0) / count).sqrt()
        varies = std > _ROUNDING * mean.abs()  # a constant 0.1 has a deviation of 1e-17
        return cls(mean, torch.where(varies, std, torch.ones_like(std)))

    def normalise(self, targets: Tensor) -> Tensor:
        """(…, k) or, with one target, (…,): computed in float64, given in the type that came."""
        return self._applied(targets, lambda y, mean, std: (y - mean) / std)

    def restore(self, values: Tensor) -> Tensor:
        """The inverse of :meth:`normalise`, in float64: an energy of −11,000 eV has errors of 1e-3 in float32."""
        return self._applied(values.to(torch.float64), lambda y, mean, std: y * std + mean)

    def _applied(self, y: Tensor, formula: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        if len(self.mean) > 1 and (y.dim() == 0 or y.shape[-1] != len(self.mean)):
            raise SpecError(
                f"got values of shape {tuple(y.shape)}; expected (…, {len(self.mean)}), a column for each target"
            )
        mean, std = (part.to(y.device) for part in (self.mean, self.std))
        if y.dim() == 0 or (y.shape[-1] != len(mean)) or (len(mean) == 1 and y.dim() == 1):
            mean, std = mean.squeeze(0), std.squeeze(0)
        dtype = y.dtype if y.is_floating_point() else torch.float64
        return formula(y.to(torch.float64), mean, std).to(dtype)


@dataclass(frozen=True)
class Provenance:
    """What a dataset was read from, for the record of a run."""

    source: str  # for people
    origin: str  # "data folder", "cache", "package …", "made here", or OWN_FILE
    files: tuple[Path, ...] = ()
    sha256: tuple[str, ...] = ()  # of each file


class PygGraphs(LazySequence[Any]):
    """The graphs as ``torch_geometric.data.Data``, made when they are asked for; ``edge_index`` has both directions.

    With a split of nodes each has the masks ``train_mask``, ``val_mask`` and ``test_mask``, (n,).
    """

    def __init__(self, arrays: GraphArrays, split_of_nodes: Split | None = None):
        self.arrays = arrays
        self.split_of_nodes = split_of_nodes

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        return f"PygGraphs({len(self)})"

    def item(self, position: int) -> Any:
        """One graph; its tensors are its own."""
        from pointset.datasets.graph_files.pyg import as_data

        graph = self.arrays[position]
        features = [None if value is None else value.clone() for value in graph.features]
        data = as_data(dataclasses.replace(graph, features=type(graph.features)(*features)))
        start, nodes = int(self.arrays.num_nodes[:position].sum()), graph.num_nodes
        for part, numbers in (self.split_of_nodes or {}).items():
            here = numbers[(numbers >= start) & (numbers < start + nodes)] - start
            data[f"{part}_mask"] = torch.zeros(nodes, dtype=torch.bool).index_fill_(0, torch.from_numpy(here), True)
        return data


@dataclass(frozen=True, eq=False)
class Dataset:
    """Graphs, what is to be predicted for them, and which of them are for training, validation and test.

    ``graphs`` are PyG ``Data`` for any PyG code; ``points()`` are the point sets for this package's encoders.

    Example:
        >>> zinc = pointset.datasets.load("zinc")  # doctest: +SKIP
        >>> train = pointset.PointLoader(
        ...     zinc.points(), 128, indices=zinc.split["train"], shuffle=True
        ... )  # doctest: +SKIP
        >>> model = pointset.PointModel.from_preset("pst", node=zinc.card.node, edge=zinc.card.edge)  # doctest: +SKIP
    """

    card: Card
    arrays: GraphArrays  # with FlatFeatures
    split: Split  # indices of the graphs for train, val and test; or of what ``split_of`` says
    provenance: Provenance
    smiles: Sequence[str] | None = None  # of each graph, where it is a molecule
    rejected: Sequence[Rejected] = ()  # rows of own data that could not be read, with reasons
    rows: Integers | None = None  # (G,) of own data: the line of each graph, or its number in graph files
    row_unit: str = "line"  # what ``rows`` count: "line" of text, "record" of SDF, "row" of a sheet, "graph"
    file_of: Integers | None = None  # (G,) which of the provenance's files each row is in, where there are several
    merged: int = 0  # rows of own data that became one graph with an earlier row of the same molecule
    limits: Limits | None = None  # of a regression
    weights: Floats | None = None  # (G,) how much each graph counts in training, from 0; None: all the same
    split_of: Level = Level.GRAPH  # what the split numbers: graphs, or all N nodes, or all M edges of the graphs

    def __post_init__(self) -> None:
        y = self.features.y
        if y is not None and y.dim() == 1 and self.card.task is not Task.MULTI_CLASS:
            # as a model's output: targets (G,) minus predictions (G, 1) would be (G, G), without a word
            features = dataclasses.replace(self.features, y=y.unsqueeze(1))
            object.__setattr__(self, "arrays", dataclasses.replace(self.arrays, features=features))

    @classmethod
    def from_table(cls, table: GraphTable, card: Card, provenance: Provenance) -> Dataset:
        """A dataset from what a reader gave."""
        split_of = Level.NODE if table.split_of_nodes else Level.GRAPH
        return cls(card, table.arrays(), table.split, provenance, table.smiles, split_of=split_of)

    def __len__(self) -> int:
        return len(self.arrays)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name} {len(indices):,}" for name, indices in self.split.items())
        size = counted(len(self), "graph")
        size += "" if self.split_of is Level.GRAPH else f" of {self.split_count:,} {self.split_of}s"
        return f"Dataset({self.card.name}: {size}; {parts or 'no split'})"

    def _repr_html_(self) -> str:
        card, y = self.card, self.targets
        named = [target.label for target in card.targets]
        facts: dict[str, object] = {
            "task": f"{card.task.value} of {card.level.value}s",
            "targets": listed(named, _MOST_SHOWN),
            "graphs": f"{len(self):,}; " + ", ".join(f"{name} {len(part):,}" for name, part in self.split.items()),
        }
        if self.rejected:
            facts["left out"] = f"{len(self.rejected):,} rows, for example {self.rejected[0]}"
        if card.level is not Level.GRAPH or y is None or not len(self):
            return notebook.card(card.title or card.name, facts)
        first = range(min(len(self), _MOST_SHOWN))
        shown = y[: len(first)].reshape(len(first), -1)[:, :_MOST_SHOWN].tolist()
        head = ["graph", *(["SMILES"] if self.smiles is not None else []), *named[: len(shown[0])]]
        rows = [
            [at, *([self.smiles[at]] if self.smiles is not None else []), *(f"{value:.5g}" for value in shown[at])]
            for at in first
        ]
        return notebook.card(card.title or card.name, facts, below=notebook.table(head, rows))

    @property
    def graphs(self) -> PygGraphs:
        """(G,) the graphs as PyG ``Data``."""
        return PygGraphs(self.arrays, self.split if self.split_of is Level.NODE else None)

    @property
    def split_count(self) -> int:
        """How many graphs, nodes or edges the split is of."""
        counts = {Level.NODE: self.arrays.num_nodes, Level.EDGE: self.arrays.num_edges}
        return int(counts[self.split_of].sum()) if self.split_of in counts else len(self)

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the columns of ``y``."""
        return self.card.target_names

    @property
    def features(self) -> FlatFeatures:
        """All features in flat tensors."""
        if not isinstance(self.arrays.features, FlatFeatures):
            raise SpecError("the graphs of a dataset keep their features in flat tensors; make it with from_table")
        return self.arrays.features

    @property
    def targets(self) -> Tensor | None:
        """(G, k) all targets, or (N, k) of nodes; of a multi-class task (G,) or (N,). None where there are none."""
        return self.features.y

    def points(
        self,
        matrix: str = DEFAULT_MATRIX,
        *,
        rank: int | None = None,
        store: PointStore | str | Path | None = None,
        dtype: torch.dtype = torch.float64,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> PointSets:
        """The graphs as point sets; the eigenpairs are computed once and kept in the store.

        Args:
            matrix: the matrix to decompose.
            rank: how many eigenpairs to keep; by default all.
            store: a store or its folder; by default the one in the cache ($POINTSET_CACHE).
            dtype: of eigenpairs.
            workers: threads of the solver.
            progress: whether to show a bar; by default where there is a terminal.
        """
        store = store if isinstance(store, PointStore) else PointStore(store)
        return to_points_many(
            self.arrays, matrix=matrix, rank=rank, store=store, dtype=dtype, workers=workers, progress=progress
        )

    def with_split(self, split: Split) -> Dataset:
        """The same graphs with another split, of graphs, nodes or edges as it is here."""
        return dataclasses.replace(self, split=check_split(split, self.split_count))

    def with_links(self, shares: Sequence[float] = (0.85, 0.05, 0.10), *, seed: int = 0) -> Dataset:
        """The same graph for link prediction: its edges are split at random, and those for training are the graph.

        What is learned is whether two nodes are joined; classes and other targets are left out.

        Args:
            shares: of the edges, for training, validation and test.
            seed: of the split.

        Raises:
            SpecError: there is more than one graph, or the shares are impossible.
        """
        if len(self) != 1:
            raise SpecError(f"{self.card.name} has {len(self):,} graphs; expected one, whose links are predicted")
        edges = int(self.arrays.num_edges.sum())
        words = f"edges at random, {'/'.join(f'{share:g}' for share in shares)}, seed {seed}"
        card = dataclasses.replace(self.card, level=Level.EDGE, task=Task.LINK, targets=(Target("link"),))
        card = dataclasses.replace(
            card, metric=Metric.ROC_AUC, classes=(), split=words, split_sizes={}, paper=None, notes=()
        )
        features = dataclasses.replace(self.features, y=None, y_of_nodes=False)
        arrays = dataclasses.replace(self.arrays, features=features)
        split = random_split(edges, shares, seed=seed)
        return dataclasses.replace(self, card=card, arrays=arrays, split=split, split_of=Level.EDGE, limits=None)

    def with_targets(self, names: str | Sequence[str]) -> Dataset:
        """The same graphs with only these targets, in this order."""
        names = list(names) if isinstance(names, Sequence) and not isinstance(names, str) else [names]
        columns = self.card.columns_of(names)
        y = self.targets
        if y is None or y.dim() < 2:
            return dataclasses.replace(self, card=self.card.with_targets(names))
        features = dataclasses.replace(self.features, y=y[:, columns])
        arrays = dataclasses.replace(self.arrays, features=features)
        limits = None if self.limits is None else Limits(*(values[:, columns] for values in self.limits))
        return dataclasses.replace(self, card=self.card.with_targets(names), arrays=arrays, limits=limits)

    def with_weighted_edges(self, column: int = 0, *, offset: int = 0) -> Dataset:
        """The same graphs with a column of their edge features, plus ``offset``, as edge weights.

        The authors' released code treats ZINC's bond types so, with an offset of 1: they change the eigenpairs, and the
        model needs no edge features.

        Raises:
            SpecError: there is no such column, or an edge would have weight 0.
        """
        edge_attr = self.features.edge_attr
        width = 0 if edge_attr is None else int(np.prod(edge_attr.shape[1:]))
        if edge_attr is None or column not in range(width):
            raise SpecError(f"{self.card.name} has no column {column} of edge features; its spec is {self.card.edge}")
        weights = edge_attr.reshape(len(edge_attr), -1)[:, column].numpy() + offset
        if absent := int((weights == 0).sum()):
            raise SpecError(
                f"{absent:,} of {len(weights):,} edges of {self.card.name} have {-offset} in column {column} of their "
                f"features, which with the offset {offset} is weight 0, and an edge of weight 0 is none; expected "
                "other numbers. Choose another offset, or keep the column as edge features"
            )
        weighted = GraphArrays.from_flat(
            self.arrays.num_nodes, self.arrays.num_edges, self.arrays.edges, weights, self.features
        )
        return dataclasses.replace(self, arrays=weighted)

    def target_scale(self) -> TargetScale:
        """Mean and standard deviation of each target over the parts that the card names (``scale_over``).

        Raises:
            SpecError: there are no targets, a part is missing, or the targets are classes.
        """
        if self.card.task is not Task.REGRESSION:
            raise SpecError(
                f"{self.card.name} is a {self.card.task.value}; expected a regression, as classes have no scale"
            )
        missing = [part for part in self.card.scale_over if part not in self.split]
        if self.targets is None or missing:
            raise SpecError(f"{self.card.name} has no {'targets' if self.targets is None else missing} to scale by")
        chosen = np.concatenate([self.split[part] for part in self.card.scale_over])
        return TargetScale.of(
            self.targets[torch.from_numpy(chosen) if self.split_of is Level.NODE else self.target_rows(chosen)]
        )

    def find_leaks(self, *, progress: bool | None = None) -> LeakReport:
        """The same graph (isomorphic, with the same features and weights) on two sides of the split.

        Raises:
            SpecError: the split is of nodes or edges.
        """
        from pointset.datasets.splits import find_leaks

        if self.split_of is not Level.GRAPH:
            raise SpecError(
                f"{self.card.name} is split by {self.split_of}s; expected a split of graphs, to compare their parts"
            )
        return find_leaks(self.arrays, self.split, progress=progress)

    def place_of(self, graph: int) -> str:
        """Where a graph stands in own data, for messages: ``line 7``, ``test.csv, line 7``; else ``graph 7``."""
        if self.rows is None:
            return f"graph {graph}"
        file = "" if self.file_of is None else f"{self.provenance.files[int(self.file_of[graph])].name}, "
        return f"{file}{self.row_unit} {int(self.rows[graph])}"

    def target_rows(self, graphs: Any) -> Tensor:
        """Rows of :attr:`targets` that belong to these graphs, graph by graph in the order given."""
        indices = np.asarray(graphs)
        if indices.size and (indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= len(self)):
            raise SpecError(f"got graphs {graphs!r:.80}; expected whole numbers from 0 to {len(self) - 1}")
        indices = indices.astype(np.int64)
        if self.card.level is Level.GRAPH:
            return torch.from_numpy(indices)
        counts = self.arrays.num_nodes[indices]
        first = (np.cumsum(self.arrays.num_nodes) - self.arrays.num_nodes)[indices]  # row of each graph's first node
        return torch.from_numpy(np.repeat(first - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum()))
