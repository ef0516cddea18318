"""The same graph on two sides of a split (:func:`find_leaks`), found among hundreds of thousands.

First Weisfeiler–Leman on all graphs at once, in flat arrays: a node's colour starts as a hash of its features, and in
each round becomes a hash of itself and of the multiset {(edge's colour, neighbour's colour)}. The multiset of a graph's
colours is the same for isomorphic graphs; a collision of 64-bit hashes can only make different graphs look alike. Of
those that do, verbatim copies are found by their bytes, and most different graphs by the colours of their pairs of
nodes; for the rest :mod:`pointset.points.same_graph` seeks a bijection of the nodes. So every "same" is a true
isomorphism that keeps features and weights: whole numbers as they are, real ones bit by bit, with one NaN and one zero.
Positions and targets are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Integers
from pointset.datasets.splits.parts import Split, check_split
from pointset.points.graphs import FlatFeatures, Graph, GraphArrays, WeightKind
from pointset.points.same_graph import Coloured, match_by_components
from pointset.progress import track
from pointset.text import clipped, counted, percent, printable

if TYPE_CHECKING:
    from pointset.datasets.dataset import Dataset

_SIDES = (("train", "test"), ("train", "val"), ("val", "test"))  # seen first, scored later
_MOST_ROUNDS = 64  # a change travels one edge in a round; the exact comparison distinguishes the rest
_OF_EDGES = np.uint64(0x2545F4914F6CDD1D)  # keeps colours of edges apart from those of nodes
_MOST_NODES = 1000  # of a graph to be compared: pairs of nodes take n² memory and n³ time
_PAIR_ROUNDS = 6  # of refinement; each doubles the distance that pairs know of
_SALTS = (np.uint64(0), np.uint64(0x5851F42D4C957F2D))
_PATIENCE = 100  # vain searches for a bijection, in all; for strongly regular graphs one can take seconds

_SHOWN_EXAMPLES = 3
_LONGEST_SMILES = 40

_Hashes = NDArray[np.uint64]


class LeakPair(NamedTuple):
    """One graph that stands on two sides."""

    seen: int  # number of the graph in the earlier part
    scored: int  # number of the same graph in the later part
    parts: tuple[str, str]  # such as ("train", "test")


@dataclass(frozen=True, eq=False)
class LeakReport:
    """Graphs that stand on two sides of a split. ``str(report)`` says it in words."""

    sizes: dict[str, int]  # part → number of its graphs
    groups: tuple[dict[str, Integers], ...]  # each one graph: part → the numbers under which it stands there
    duplicates: dict[str, int]  # part → graphs that are copies of an earlier one of the same part; not a leak
    undecided: Integers  # graphs that could be the same as another, but were too large or too hard to compare

    @property
    def found(self) -> bool:
        """Whether there is a leak."""
        return bool(self.groups)

    @property
    def pairs(self) -> list[LeakPair]:
        """Every graph of a later part that is also in an earlier one, with its first copy there."""
        return [
            LeakPair(int(group[seen][0]), int(index), (seen, scored))
            for seen, scored in _SIDES
            for group in self.groups
            if seen in group and scored in group
            for index in group[scored]
        ]

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        """(earlier part, later part) → how many graphs of the later are also in the earlier."""
        return {sides: len(self.affected(*sides)) for sides in _SIDES if set(sides) <= set(self.sizes)}

    def affected(self, seen: str, scored: str) -> Integers:
        """The graphs of the part ``scored`` that are also in the part ``seen``, sorted."""
        found = [group[scored] for group in self.groups if seen in group and scored in group]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def __str__(self) -> str:
        sentences = [self._leaks()]
        copies = [f"{count:,} in {part}" for part, count in self.duplicates.items() if count]
        if copies:
            sentences.append(f"Copies within one part, which are not a leak: {', '.join(copies)}.")
        if len(self.undecided):
            shown = ", ".join(f"{index:,}" for index in self.undecided[:3])
            sentences.append(
                f"{counted(len(self.undecided), 'graph')} could be the same as another but too large or too symmetric "
                f"to compare in full (e.g. graph {shown}); ask pointset.is_same_graph about those that matter."
            )
        return " ".join(sentences)

    def _leaks(self) -> str:
        if not self.found:
            return f"No graph stands on two sides of the split ({sum(self.sizes.values()):,} graphs compared)."
        clauses = []
        example = {pair.parts: pair for pair in reversed(self.pairs)}
        for (seen, scored), count in self.counts.items():
            if count:
                pair, size = example[seen, scored], self.sizes[scored]
                clauses.append(
                    f"{count:,} of {size:,} {scored} graphs ({percent(count / size)}) {'is' if count == 1 else 'are'} "
                    f"also in {seen} (e.g. graph {pair.scored:,} = graph {pair.seen:,})"
                )
        return (
            f"{'; '.join(clauses)}. Scores on them measure memory, not learning: take them out of the part that is "
            "scored or of the part that is learned from, or remove copies before splitting."
        )


def describe_leaks(dataset: Dataset, leaks: LeakReport) -> str:
    """How many graphs of each part were seen in an earlier one, with examples by their place in own data."""

    def named(graph: int) -> str:
        smiles = "" if dataset.smiles is None else f" {clipped(printable(dataset.smiles[graph]), _LONGEST_SMILES)!r}"
        return dataset.place_of(graph) + smiles

    clauses = []
    for (seen, scored), count in leaks.counts.items():
        if count:
            examples = [pair for pair in leaks.pairs if pair.parts == (seen, scored)][:_SHOWN_EXAMPLES]
            shown = "; ".join(f"{named(pair.scored)} = {named(pair.seen)}" for pair in examples)
            noun = "molecules" if dataset.smiles is not None else "graphs"
            verb = "is" if count == 1 else "are"
            clauses.append(f"{count:,} of {leaks.sizes[scored]:,} {scored} {noun} {verb} also in {seen} ({shown})")
    return (
        f"The split leaks: {'. '.join(clauses)}. Scores on them measure memory, not learning: remove the copies from "
        "the file, or put them into the same part"
    )


def find_leaks(graphs: GraphArrays, split: Split, *, progress: bool | None = None) -> LeakReport:
    """Find graphs that stand in two parts of a split: isomorphic, with the same node and edge features and weights.

    Positions and targets are ignored, and features and weights compared exactly. Colour refinement of all graphs at
    once leaves few that could be the same; those are compared exactly, so there is no false alarm. Not compared in full
    are graphs of more than 1,000 nodes whose copies are not verbatim, and what is left after 100 vain searches among
    graphs as alike as strongly regular ones: the report lists them as ``undecided``.

    Args:
        graphs: all graphs of the dataset.
        split: indices into them by part; graphs in no part are not looked at. Where val is test itself, it counts as
            test only.
        progress: show a bar; by default where stderr is a terminal.

    Returns:
        The report; ``report.found`` tells whether there is a leak, ``str(report)`` what to do.

    Raises:
        SpecError: it is not a split of these graphs.
    """
    parts = {name: part for name, part in check_split(split, len(graphs)).items() if len(part)}
    if "test" in parts and "val" in parts and np.array_equal(parts["val"], parts["test"]):
        del parts["val"]
    used = np.sort(np.concatenate(list(parts.values())))
    coloured = _coloured_graphs(graphs)
    groups = _alike(coloured if len(used) == len(graphs) else coloured.take(used))
    comparison = _ExactComparison()
    classes: list[Integers] = []
    undecided: list[Integers] = []
    for group in track(groups, "Comparing graphs that look alike", len(groups), show=progress):
        same, doubtful = comparison.classes([graphs[index] for index in group.tolist()])
        classes += [group[positions] for positions in same if len(positions) > 1]
        undecided.append(group[doubtful])
    classes.sort(key=lambda group: int(group[0]))
    return _report(parts, len(graphs), classes, undecided)


def _report(parts: Split, count: int, classes: Iterable[Integers], undecided: list[Integers]) -> LeakReport:
    part_of = np.full(count, -1)
    for code, indices in enumerate(parts.values()):
        part_of[indices] = code
    groups: list[dict[str, Integers]] = []
    duplicates = dict.fromkeys(parts, 0)
    for same in classes:
        found = {part: np.sort(same[part_of[same] == code]) for code, part in enumerate(parts)}
        found = {part: indices for part, indices in found.items() if len(indices)}
        for part, indices in found.items():
            duplicates[part] += len(indices) - 1
        if len(found) > 1:
            groups.append(found)
    return LeakReport(
        sizes={part: len(indices) for part, indices in parts.items()},
        groups=tuple(groups),
        duplicates=duplicates,
        undecided=np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *undecided])),
    )


def _coloured_graphs(graphs: GraphArrays) -> _ColouredGraphs:
    """All graphs, with a colour for each node (its features), edge (features, weight) and graph (which features)."""
    of_graph, node_colour = _feature_colours(graphs, "x", graphs.num_nodes)
    edges_of_graph, edge_colour = _feature_colours(graphs, "edge_attr", graphs.num_edges)
    if graphs.weights is not None:
        unweighted = np.repeat(graphs.weight_kind == WeightKind.NONE, graphs.num_edges)
        weights = np.where(unweighted, 1.0, graphs.weights)
        edge_colour = _scrambled(edge_colour + _real_bits(weights).view(np.uint64))
    node_start = np.cumsum(graphs.num_nodes) - graphs.num_nodes
    return _ColouredGraphs(
        index=np.arange(len(graphs)),
        num_nodes=graphs.num_nodes,
        num_edges=graphs.num_edges,
        edges=graphs.edges + np.repeat(node_start, graphs.num_edges),
        graph_colour=_scrambled(of_graph + _scrambled(edges_of_graph)),
        node_colour=node_colour,
        edge_colour=_scrambled(edge_colour ^ _OF_EDGES),
    )


def _feature_colours(graphs: GraphArrays, name: Literal["x", "edge_attr"], counts: Integers) -> tuple[_Hashes, _Hashes]:
    """(G,) a colour for the shape of the rows that a graph has, and (Σ counts,) one for each row of all graphs."""
    shapes = np.zeros(len(graphs), dtype=np.uint64)
    rows = np.zeros(int(counts.sum()), dtype=np.uint64)
    if isinstance(graphs.features, FlatFeatures):
        flat: Tensor | None = getattr(graphs.features, name)
        return shapes, rows if flat is None else _row_hashes([flat], not flat.is_floating_point())
    by_shape: dict[tuple[int, ...], dict[int, Tensor]] = {}
    for index, given in enumerate(graphs.features or ()):
        tensor: Tensor | None = getattr(given, name)
        if tensor is not None:
            by_shape.setdefault(tuple(tensor.shape[1:]), {})[index] = tensor
    whole = not any(tensor.is_floating_point() for tensors in by_shape.values() for tensor in tensors.values())
    for code, tensors in enumerate(by_shape.values(), start=1):
        graph = np.array(list(tensors))
        shapes[graph] = code
        rows[_rows_of(counts, graph)] = _row_hashes(list(tensors.values()), whole)
    return shapes, rows


def _row_hashes(tensors: list[Tensor], whole: bool) -> _Hashes:
    rows = np.concatenate([_feature_rows(tensor, whole=whole) for tensor in tensors])
    hashes = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashes = _scrambled(hashes + column.astype(np.uint64))
    return hashes


def _feature_rows(tensor: Tensor, *, whole: bool) -> NDArray[np.int64]:
    """(rows, width) whole numbers for a tensor (rows, …), equal where the features are."""
    rows = tensor.detach().to_dense().cpu().to(torch.int64 if whole else torch.float64)
    table = rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).numpy()
    return table if whole else _real_bits(table)


def _real_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole numbers that are equal where the real ones are: one zero, and NaN equals NaN."""
    return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)


@dataclass(frozen=True, eq=False)
class _ColouredGraphs:
    """Many graphs with colours; each edge once, node numbers counted through all graphs."""

    index: Integers  # (G,) the number by which the caller knows each graph
    num_nodes: Integers  # (G,)
    num_edges: Integers  # (G,)
    edges: Integers  # (2, M)
    graph_colour: _Hashes  # (G,) of what is not in nodes and edges
    node_colour: _Hashes  # (N,)
    edge_colour: _Hashes  # (M,)

    def take(self, chosen: Integers) -> _ColouredGraphs:
        """Some of the graphs."""
        nodes, edges = _rows_of(self.num_nodes, chosen), _rows_of(self.num_edges, chosen)
        shift = (np.cumsum(self.num_nodes) - self.num_nodes)[chosen]
        counts = self.num_nodes[chosen]
        moved = np.repeat(np.cumsum(counts) - counts - shift, self.num_edges[chosen])
        return _ColouredGraphs(
            index=self.index[chosen],
            num_nodes=counts,
            num_edges=self.num_edges[chosen],
            edges=self.edges[:, edges] + moved,
            graph_colour=self.graph_colour[chosen],
            node_colour=self.node_colour[nodes],
            edge_colour=self.edge_colour[edges],
        )

    def refined(self) -> _ColouredGraphs:
        """The same graphs after one round."""
        gathered = np.zeros_like(self.node_colour)
        for here, there in (self.edges, self.edges[::-1]):
            np.add.at(gathered, here, _scrambled(self.node_colour[there] ^ self.edge_colour))
        colours = _scrambled(self.node_colour + _scrambled(gathered))
        return replace(self, node_colour=colours)

    def fingerprints(self) -> _Hashes:
        """(G,) equal for graphs with equal multisets of colours."""
        result = self.graph_colour.copy()
        for counts, colours in ((self.num_nodes, self.node_colour), (self.num_edges, self.edge_colour)):
            added = np.zeros_like(result)
            np.add.at(added, np.repeat(np.arange(len(counts)), counts), _scrambled(colours))
            result = _scrambled(result + _scrambled(added ^ _scrambled(counts.astype(np.uint64))))
        return result


def _alike(graphs: _ColouredGraphs) -> list[Integers]:
    """Groups of two or more graphs that colour refinement cannot distinguish, by their ``index``, in order."""
    colours = -1
    for _ in range(_MOST_ROUNDS):
        _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
        chosen = np.flatnonzero(size[group] > 1)
        if not len(chosen):
            return []
        if len(chosen) < len(graphs.index):
            graphs, colours = graphs.take(chosen), -1
        before, colours = colours, len(np.unique(graphs.node_colour))
        if colours <= before:  # stable: a further round would change nothing
            break
        graphs = graphs.refined()
    _, group, size = np.unique(graphs.fingerprints(), return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    parts = np.split(graphs.index[order], np.cumsum(size)[:-1])
    return sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0]))


def _rows_of(counts: Integers, chosen: Integers) -> Integers:
    """The rows of some graphs in a flat array that ``counts`` cuts."""
    start, length = (np.cumsum(counts) - counts)[chosen], counts[chosen]
    begin = np.cumsum(length) - length
    return np.repeat(start - begin, length) + np.arange(int(length.sum()))


def _scrambled(codes: _Hashes) -> _Hashes:
    """Splitmix64: 64-bit numbers to well-mixed ones, one to one."""
    mixed = codes * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: _Hashes = mixed ^ (mixed >> np.uint64(31))
    return result


class _ExactComparison:
    """Sorts groups of graphs into classes; the patience for hard ones is shared by all groups."""

    def __init__(self) -> None:
        self.patience = _PATIENCE

    def classes(self, graphs: Sequence[Graph]) -> tuple[list[list[int]], list[int]]:
        """Graphs with features of one kind and shape → classes of the same, by their positions.

        Behind them those that could also be the same as one of another class: too large or too hard to compare.
        """
        classes: list[list[int]] = []
        undecided: list[int] = []
        first: list[LabelledGraph] = []  # of each class
        copies: dict[bytes, int] = {}  # bytes of a graph → its class
        candidates: dict[int | None, list[int]] = {}  # fingerprint → classes
        for position, graph in enumerate(labelled_graphs(graphs)):
            key = graph.key()
            if key not in copies:
                similar = candidates.setdefault(graph.fingerprint(), [])
                number, doubtful = self._search(graph, [(number, first[number]) for number in similar])
                if number is None:
                    number = len(first)
                    first.append(graph)
                    similar.append(number)
                    classes.append([])
                if doubtful:
                    undecided.append(position)
                copies[key] = number
            classes[copies[key]].append(position)
        return classes, undecided

    def _search(self, graph: LabelledGraph, others: list[tuple[int, LabelledGraph]]) -> tuple[int | None, bool]:
        """The class that a graph belongs to, if any, and whether that was left undecided."""
        for number, other in others:
            if graph.num_nodes > _MOST_NODES or not self.patience:
                return None, True
            if match_by_components(other.coloured(), graph.coloured()) is not None:
                return number, False
            self.patience -= 1
        return None, False


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """One graph; equal numbers stand for equal features in all graphs of the group."""

    num_nodes: int
    edges: Integers  # (2, m)
    node_class: Integers  # (n,)
    edge_class: Integers  # (m,)

    def key(self) -> bytes:
        """The same for verbatim copies only."""
        return b"".join(array.tobytes() for array in (self.node_class, self.edges, self.edge_class))

    def edge_table(self) -> Integers:
        """(n, n) symmetric: 0 where there is no edge, otherwise 1 + the edge's class."""
        low, high = self.edges
        table = np.zeros((self.num_nodes, self.num_nodes), dtype=np.int64)
        table[low, high] = table[high, low] = 1 + self.edge_class
        return table

    def coloured(self) -> Coloured:
        """As :func:`~pointset.points.same_graph.match_by_components` takes it."""
        low, high = self.edges
        pairs = self.edge_table()
        adjacency = scipy.sparse.coo_array((np.ones(len(low)), (low, high)), shape=pairs.shape)
        component = np.zeros(0, dtype=np.int64)
        if self.num_nodes:
            component = scipy.sparse.csgraph.connected_components(adjacency, directed=False)[1].astype(np.int64)
        return Coloured(self.node_class, pairs, component)

    def fingerprint(self) -> int | None:
        """Invariant under relabelling, and different for nearly all different graphs; None for one that is too large.

        The two-dimensional Weisfeiler–Leman test in its "folklore" form: the colour c_ij of a pair of nodes becomes
        hash(c_ij, Σ_k g(c_ik)·h(c_kj)). g and h are hashes of 20 bits, so that the products of matrices are exact in
        float64 and do not depend on the order in which a machine adds. Cost n³ for each of 6 rounds.
        """
        if self.num_nodes > _MOST_NODES:
            return None
        codes = self.edge_table().astype(np.uint64)
        codes[np.diag_indices(self.num_nodes)] += (1 + self.node_class).astype(np.uint64) << np.uint64(32)
        for _ in range(_PAIR_ROUNDS):
            left, right = ((_scrambled(codes ^ salt) >> np.uint64(44)).astype(np.float64) for salt in _SALTS)
            codes = _scrambled(codes + _scrambled((left @ right).astype(np.uint64)))
        return int(_scrambled(codes).sum(dtype=np.uint64))


def labelled_graphs(graphs: Sequence[Graph]) -> list[LabelledGraph]:
    """Number the features of graphs whose features are of one kind and shape."""
    node_rows = _rows([graph.features.x for graph in graphs], [graph.num_nodes for graph in graphs])
    edge_rows = _rows([graph.features.edge_attr for graph in graphs], [graph.edges.shape[1] for graph in graphs])
    weights = [np.ones(graph.edges.shape[1]) if graph.weights is None else graph.weights for graph in graphs]
    weighted = [np.column_stack([rows, _real_bits(some)]) for rows, some in zip(edge_rows, weights, strict=True)]
    return [
        LabelledGraph(graph.num_nodes, graph.edges, nodes, edges)
        for graph, nodes, edges in zip(graphs, _numbered(node_rows), _numbered(weighted), strict=True)
    ]


def _rows(tensors: list[Tensor | None], counts: list[int]) -> list[NDArray[np.int64]]:
    """(rows, width) for each graph; width 0 without features."""
    whole = not any(tensor.is_floating_point() for tensor in tensors if tensor is not None)
    return [
        np.zeros((count, 0), dtype=np.int64) if tensor is None else _feature_rows(tensor, whole=whole)
        for tensor, count in zip(tensors, counts, strict=True)
    ]


def _numbered(tables: list[NDArray[np.int64]]) -> list[Integers]:
    """A number for each row of each table, equal for equal rows."""
    together = np.concatenate(tables)
    numbers = np.zeros(len(together), dtype=np.int64)
    if together.size:
        numbers = np.unique(together, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])
