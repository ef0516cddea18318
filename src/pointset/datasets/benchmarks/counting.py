"""Counting substructures: random graphs, and for each node how many of 13 substructures it is the root of."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import SupportsIndex

import numpy as np

from pointset.arrays import Array, Integers, read_arrays
from pointset.datasets.benchmarks.reading import expect_whole
from pointset.datasets.card import Card, Level, Metric, PaperRow, Target, Task
from pointset.datasets.counting import SUBSTRUCTURES, count_many
from pointset.datasets.random_graphs import FAMILIES, NODES_AND_DEGREES
from pointset.datasets.sources import Benchmark, Source
from pointset.datasets.splits import random_split
from pointset.datasets.splits.parts import PARTS, whole_number
from pointset.datasets.table import GraphTable
from pointset.errors import GraphError


def counting_graphs(seed: SupportsIndex, count: SupportsIndex = 5000) -> tuple[Integers, Integers, Integers]:
    """``count`` graphs: random d-regular graphs on n nodes from which exactly n random edges were removed.

    (n, d) is (10, 6), (15, 6), (20, 5) or (30, 5), drawn anew for each graph with equal chances: the published 5,000
    graphs hold 1228, 1274, 1233 and 1265 of them in no order, which is what such draws give. Nothing makes the graphs
    connected; about one in ten is not (520 of the published). Expected are 18.75 nodes and 31.25 edges.

    Graph i depends on the seed and on i alone: more graphs begin with the same ones.

    Returns:
        num_nodes (G,), num_edges (G,) and edges (2, M): one graph after the other, each with nodes from 0, each edge
        once as u < v, in ascending order.
    """
    start, number = _natural(seed, "seed"), _natural(count, "count")
    drawn = [_graph(np.random.SeedSequence(start, spawn_key=(index,))) for index in range(number)]
    num_nodes = np.array([nodes for nodes, _ in drawn], dtype=np.int64)
    num_edges = np.array([edges.shape[1] for _, edges in drawn], dtype=np.int64)
    none = np.zeros((2, 0), dtype=np.int64)
    return num_nodes, num_edges, np.concatenate([none, *(edges for _, edges in drawn)], axis=1)


def _graph(seed: np.random.SeedSequence) -> tuple[int, Integers]:
    """One graph: n and edges (2, nd/2 − n)."""
    import networkx as nx  # only here: commands that generate nothing should not wait for it

    generator = np.random.default_rng(seed)
    nodes, degree = NODES_AND_DEGREES[generator.integers(len(NODES_AND_DEGREES))]
    regular = nx.random_regular_graph(degree, nodes, seed=int(generator.integers(2**32)))
    edges = np.array(sorted(sorted(edge) for edge in regular.edges()), dtype=np.int64)
    remaining = generator.choice(len(edges), len(edges) - nodes, replace=False)
    return nodes, edges[np.sort(remaining)].T


def _natural(value: SupportsIndex, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0:
        raise GraphError(f"got {name} {value!r}; expected a whole number ≥ 0")
    return number


_FRACTIONS = (0.3, 0.2, 0.5)
_GRAPHS = 5_000
_SEED = 10  # the first whose means round to those of the paper's table (18.8 nodes, 31.3 edges)


def generator(seed: int = _SEED) -> tuple[Source]:
    """Makes 5,000 graphs of the recipe from a seed, with their counts and a split."""
    chosen = whole_number(seed, "seed")

    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        table = _counted(*counting_graphs(chosen, _GRAPHS), show)
        return dataclasses.replace(table, split=random_split(len(table), _FRACTIONS, seed=chosen))

    return (Source(f"the generator, seed {chosen}", read, made_here=True),)


def read_original(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
    """One ``.npz`` with num_nodes, num_edges, edges (M, 2) and train_idx, val_idx, test_idx; the counts are made."""
    (path,) = files
    arrays = read_arrays(path, ("num_nodes", "num_edges", "edges", "train_idx", "val_idx", "test_idx"))
    graphs = np.atleast_1d(arrays["num_nodes"]).shape[0]
    table = _counted(
        expect_whole(path, "num_nodes", arrays["num_nodes"], graphs),
        expect_whole(path, "num_edges", arrays["num_edges"], graphs),
        expect_whole(path, "edges", arrays["edges"], None, 2).T,
        show,
    )
    split = {part: expect_whole(path, f"{part}_idx", arrays[f"{part}_idx"], None) for part in PARTS}
    return dataclasses.replace(table, split=split)


def _counted(num_nodes: Array, num_edges: Array, edges: Array, show: bool | None) -> GraphTable:
    counts = count_many(num_nodes, num_edges, edges, progress=show)
    return GraphTable(num_nodes, num_edges, edges, y=counts.astype(np.float32), y_of_nodes=True)


_MEANING = {
    "path": "paths with {} edges that start at the node",
    "cycle": "cycles of {} nodes through the node",
    "tailed-triangle": "triangles with a tail that ends at the node",
    "chordal-cycle": "4-cycles through the node with a chord between its two neighbours",
    "triangle-rectangle": "triangles on a side of a 4-cycle; the node is the corner that is not on that side",
}


def _target(name: str) -> Target:
    size, _, kind = name.partition("-")
    return Target(name, meaning=_MEANING[name if name in _MEANING else kind].format(size))


def _card(name: str, title: str, split: str, source: str) -> Card:
    return Card(
        name=name,
        title=title,
        description="Random graphs: regular ones with (n, degree) of (10, 6), (15, 6), (20, 5) or (30, 5), from which "
        "n random edges were removed. Predict for each node how many substructures it is the root of.",
        level=Level.NODE,
        task=Task.REGRESSION,
        targets=tuple(map(_target, SUBSTRUCTURES)),
        metric=Metric.MAE,
        split=split,
        split_sizes={"train": 1_500, "val": 1_000, "test": 2_500},
        scale_over=("train", "val"),
        licence="none stated for the original graphs; the generated ones are made here",
        source=source,
        reference="Huang et al. 2023, Boosting the cycle counting power of GNNs with I²-GNNs, arXiv:2210.13978",
        paper=PaperRow(_GRAPHS, 18.8, 31.3),
        notes=(
            "Counts are exact and not normalised here; the paper's MAE is of counts divided by their standard "
            "deviation over train and val (Dataset.target_scale()).",
            "Subgraphs, not induced ones; each counted up to automorphisms that fix the root.",
        ),
    )


COUNTING = Benchmark(
    _card("counting", "Counting, generated", f"random 0.3 / 0.2 / 0.5, seed {_SEED}", "made here"),
    generator(),
    choose=generator,
    options={"seed": f"of the graphs and of the split; by default {_SEED}"},
)
COUNTING_ORIGINAL = Benchmark(
    _card("counting-original", "Counting, original graphs", "as published", "the graphs of I²-GNN; counts are made"),
    (
        Source(
            "flat arrays",
            read_original,
            places=(("counting/graphs.npz",),),
            sha256={"graphs.npz": "2a8dbe90ad2f859a2e0150a58d3aa43d9bd6013581852cb261e84786ba6b5ef3"},
        ),
    ),
)

_SEEN = ("random", "hubs", "trees", "small worlds")  # besides the benchmark's own kind
_UNSEEN = ("40 nodes", "60 nodes", "communities", "geometric")
_OF_EACH = {"train": 300, "val": 100, "test": 250}


def families_generator(seed: int = _SEED) -> tuple[Source]:
    """Makes graphs of several families to learn from, and larger ones and others to test on."""
    chosen = whole_number(seed, "seed")

    def read(files: Sequence[Path], /, *, show: bool | None) -> GraphTable:
        from pointset.points.graphs import GraphArrays  # with torch, which a list of datasets need not wait for
        from pointset.points.inputs import read_graphs

        known = _OF_EACH["train"] + _OF_EACH["val"]
        drawn = [GraphArrays.from_flat(*counting_graphs(chosen, known))]
        drawn += [read_graphs(FAMILIES[name].draw_many(known, chosen)) for name in _SEEN]
        drawn += [read_graphs(FAMILIES[name].draw_many(_OF_EACH["test"], chosen)) for name in _UNSEEN]
        num_nodes = np.concatenate([part.num_nodes for part in drawn])
        num_edges = np.concatenate([part.num_edges for part in drawn])
        table = _counted(num_nodes, num_edges, np.concatenate([part.edges for part in drawn], axis=1), show)
        learned = known * (1 + len(_SEEN))
        place = np.arange(len(table))
        is_val = place % known >= _OF_EACH["train"]
        parts = (place < learned) & ~is_val, (place < learned) & is_val, place >= learned
        return dataclasses.replace(table, split=dict(zip(PARTS, map(np.flatnonzero, parts), strict=True)))

    return (Source(f"the generator, seed {chosen}", read, made_here=True),)


COUNTING_FAMILIES = Benchmark(
    dataclasses.replace(
        _card("counting-families", "Counting, beyond its training kind", "", "made here"),
        description="Random graphs of five families to learn from (regular ones with edges removed, random ones, hubs, "
        "trees, small worlds; 10 to 30 nodes), and of four others to test on: regular ones of 40 and 60 nodes, "
        "communities, points in a square. Predict for each node how many substructures it is the root of.",
        split="by family: those of test occur in neither train nor val",
        split_sizes={
            part: count * (len(_UNSEEN) if part == "test" else 1 + len(_SEEN)) for part, count in _OF_EACH.items()
        },
        paper=None,
    ),
    families_generator(),
    choose=families_generator,
    options={"seed": f"of the graphs; by default {_SEED}"},
)
