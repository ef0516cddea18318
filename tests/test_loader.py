"""The loader: the same batches as an ordinary DataLoader, gathered from flat arrays, in workers, within a budget."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, DistributedSampler, Subset, WeightedRandomSampler
from torch_geometric.data import Data

import pointset
from pointset.encoders.loader import Budget
from pointset.errors import GraphError, MatrixError, MemoryForecastError, SpecError
from pointset.machine import training_bytes
from tests.test_batch import assert_same_batch, points_with_features


def molecules(count: int = 60, seed: int = 0) -> list[Data]:
    """Random connected graphs with node, edge and graph features."""
    generator = np.random.default_rng(seed)
    graphs = []
    for _ in range(count):
        n = int(generator.integers(3, 12))
        edges = torch.tensor([(int(generator.integers(node)), node) for node in range(1, n)]).T
        features = torch.from_numpy(generator.integers(0, 4, (n - 1, 1)))
        graphs.append(
            Data(
                x=torch.from_numpy(generator.integers(0, 28, n)),
                edge_index=torch.cat([edges, edges.flip(0)], dim=1),
                edge_attr=torch.cat([features, features]),
                y=torch.from_numpy(generator.standard_normal((1, 1))),
            )
        )
    return graphs


POINTS = pointset.to_points_many(molecules(), workers=1)
LARGEST = training_bytes(11, 10, dim=64, layers=4)  # of a graph in POINTS
BUDGET = 5 * LARGEST


def seeded(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def ordinary(points: Any, batch_size: int = 7, **options: Any) -> DataLoader[Any]:
    point_sets: Any = list(points)
    return DataLoader(point_sets, batch_size, collate_fn=pointset.collate, **options)


def assert_same_epoch(got: Any, expected: Any) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert_same_batch(one, other.to(torch.float32))


@given(points_with_features(), st.data())
def test_gathering_is_collating(points: pointset.PointSets, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(points) - 1), min_size=1, max_size=8))
    dtype = data.draw(st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]))
    loader = pointset.PointLoader(points, len(chosen), sampler=chosen, dtype=dtype)
    (batch,) = loader
    assert_same_batch(batch, pointset.collate([points[index] for index in chosen]).to(dtype))


@given(points_with_features(), st.data())
def test_gathering_from_a_part(points: pointset.PointSets, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(0, len(points) - 1), min_size=1, max_size=8))
    (batch,) = pointset.PointLoader(points, len(chosen), indices=chosen)
    assert_same_batch(batch, pointset.collate([points[index] for index in chosen]).to(torch.float32))


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("points", [POINTS, list(POINTS)], ids=["flat", "list"])
def test_shuffles_as_an_ordinary_loader(points: Any, drop_last: bool) -> None:
    ours = pointset.PointLoader(points, 7, shuffle=True, generator=seeded(), drop_last=drop_last)
    theirs = ordinary(points, shuffle=True, generator=seeded(), drop_last=drop_last)
    first, second = list(ours), list(ours)
    assert_same_epoch(first, list(theirs))
    assert_same_epoch(second, list(theirs))
    assert any(not torch.equal(a.num_nodes, b.num_nodes) for a, b in zip(first, second, strict=True))


def test_without_shuffling_in_order() -> None:
    assert_same_epoch(pointset.PointLoader(POINTS, 7), ordinary(POINTS))
    assert [batch.num_graphs for batch in pointset.PointLoader(POINTS)] == [1] * len(POINTS)


def test_follows_the_generator_of_torch_without_one_of_its_own() -> None:
    torch.manual_seed(5)
    theirs = list(ordinary(POINTS, shuffle=True))
    torch.manual_seed(5)
    assert_same_epoch(list(pointset.PointLoader(POINTS, 7, shuffle=True)), theirs)


@pytest.mark.parametrize(
    "indices", [[4, 2, 2, 50], np.array([4, 2, 2, 50], np.int32), torch.tensor([4, 2, 2, 50]), range(10, 30, 2)]
)
def test_a_split(indices: Any) -> None:
    expected = [POINTS[int(index)] for index in indices]
    for points in (POINTS, list(POINTS)):
        assert_same_epoch(pointset.PointLoader(points, 3, indices=indices), ordinary(expected, 3))
        ours = pointset.PointLoader(points, 3, indices=indices, shuffle=True, generator=seeded())
        assert_same_epoch(ours, ordinary(expected, 3, shuffle=True, generator=seeded()))


def test_subsets_of_torch_stay_fast() -> None:
    points: Any = POINTS
    nested = Subset(Subset(points, [5, 7, 9, 11]), [3, 1])
    loader = pointset.PointLoader(nested, 2, indices=[1, 0])
    assert type(loader.dataset).__name__ == "GatheredPoints"
    assert_same_epoch(loader, ordinary([POINTS[7], POINTS[11]], 2))


class NoteThreads:
    """What a worker runs at its start."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, worker: int) -> None:
        (self.folder / str(worker)).write_text(str(torch.get_num_threads()))


@pytest.mark.parametrize("stored", [False, True])
def test_workers_give_the_same_on_one_thread_each(stored: bool, tmp_path: Path) -> None:
    points = pointset.to_points_many(molecules(), workers=1, store=tmp_path / "store" if stored else None)
    assert isinstance(points.eigenpairs.vectors, np.memmap) == stored
    options: dict[str, Any] = {"shuffle": True, "num_workers": 2, "worker_init_fn": NoteThreads(tmp_path)}
    loader = pointset.PointLoader(points, 7, generator=seeded(), **options)
    theirs = ordinary(POINTS, shuffle=True, generator=seeded())
    assert_same_epoch(loader, theirs)
    assert_same_epoch(loader, theirs)
    assert [(tmp_path / worker).read_text() for worker in "01"] == ["1", "1"]


def test_workers_within_a_budget_and_from_a_list() -> None:
    options: dict[str, Any] = {"memory_budget": BUDGET, "shuffle": True}
    alone = list(pointset.PointLoader(POINTS, generator=seeded(), **options))
    loader = pointset.PointLoader(list(POINTS), generator=seeded(), num_workers=2, **options)
    for one, other in zip(loader, alone, strict=True):
        assert_same_batch(one, other)


def test_a_worker_passes_on_few_tensors() -> None:
    """Each storage is an open file on its way from a worker: with many groups they would run out."""
    loader = pointset.PointLoader(POINTS, len(POINTS))
    for batch in (next(iter(loader)), pointset.collate(list(POINTS))):
        tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
        assert len(tensors) <= 10 and all(value.untyped_storage().nbytes() == value.nbytes for value in tensors)


def needed(batch: pointset.PointBatch, dim: int = 64, layers: int = 4) -> int:
    return sum(
        graphs * training_bytes(n, r, dim=dim, layers=layers)
        for graphs, n, r in (group.shape for group in batch.groups)
    )


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("points", [POINTS, list(POINTS)], ids=["flat", "list"])
def test_batches_stay_within_the_budget(points: Any, batch_size: int, shuffle: bool) -> None:
    loader = pointset.PointLoader(points, batch_size, memory_budget=BUDGET, shuffle=shuffle, generator=seeded())
    numbers: Any = range(len(POINTS))
    one_by_one: DataLoader[Any] = DataLoader(numbers, 1, shuffle=shuffle, generator=seeded())
    for _ in range(3):
        batches = list(loader)
        assert len(batches) == len(loader)
        assert all(needed(batch) <= BUDGET for batch in batches)
        assert all(batch.num_graphs <= batch_size for batch in batches) or batch_size == 1
        order = [int(index) for index in one_by_one]
        assert torch.cat([batch.num_nodes for batch in batches]).tolist() == POINTS.num_nodes[order].tolist()
        assert torch.equal(
            torch.cat([batch.y for batch in batches if batch.y is not None]),
            torch.cat([y for index in order if (y := POINTS[index].y) is not None]).float(),
        )


def test_without_shuffling_a_batch_ends_where_the_next_graph_does_not_fit() -> None:
    batches = list(pointset.PointLoader(POINTS, memory_budget=BUDGET))
    for batch, following in pairwise(batches):
        first = int(following.num_nodes[0])
        assert needed(batch) + training_bytes(first, first - 1, dim=64, layers=4) > BUDGET


@given(st.lists(st.integers(0, 100), min_size=1, max_size=30), st.integers(1, 8), st.integers(100, 300), st.data())
def test_no_order_needs_more_batches_than_the_length(
    sizes: list[int], graphs: int, limit: int, data: st.DataObject
) -> None:
    budget = Budget(sizes, limit, graphs)
    drawn = data.draw(st.permutations(range(len(sizes))))[: data.draw(st.integers(1, len(sizes)))]
    batches = budget.batches(drawn)
    assert [graph for batch in batches for graph in batch] == drawn
    assert all(len(batch) <= graphs and sum(sizes[graph] for graph in batch) <= limit for batch in batches)
    assert len(batches) <= budget.most_batches(len(drawn)) <= len(drawn)


def test_the_length_is_near_what_is_needed_where_graphs_are_small() -> None:
    """Otherwise many batches would be halved for nothing; one large graph in thousands must not matter."""
    generator = np.random.default_rng(0)
    sizes = [*generator.integers(50, 200, 5000).tolist(), 10_000]
    needed = len(Budget(sizes, 10_000, len(sizes)).batches(range(len(sizes))))
    assert needed <= Budget(sizes, 10_000, len(sizes)).most_batches(len(sizes)) <= 1.06 * needed


def test_the_length_with_a_sampler() -> None:
    def loader(sampler: Any) -> pointset.PointLoader:
        return pointset.PointLoader(POINTS, memory_budget=BUDGET, sampler=sampler)

    assert len(loader([3, 1, 2])) == len(list(loader([3, 1, 2]))) == 1
    points: Any = POINTS
    ranks = [loader(DistributedSampler(points, num_replicas=2, rank=rank)) for rank in (0, 1)]
    assert len({len(each) for each in ranks} | {len(list(each)) for each in ranks}) == 1
    unknown = loader(WeightedRandomSampler([1.0] * len(POINTS), 100))
    with pytest.raises(TypeError, match="not known before the sampler has drawn"):
        len(unknown)
    assert sum(batch.num_graphs for batch in unknown) == 100


@pytest.mark.parametrize(
    ("budget", "limit"),
    [("2GB", 2e9), ("2 gb", 2e9), ("1.5GiB", 1.5 * 2**30), ("512MiB", 2**29), ("10_000_000", None), (1e8, 1e8)],
)
def test_ways_to_say_a_budget(budget: Any, limit: float | None) -> None:
    if limit is None:
        with pytest.raises(SpecError, match="expected a number of bytes"):
            pointset.PointLoader(POINTS, memory_budget=budget)
        return
    loader = pointset.PointLoader(POINTS, memory_budget=budget)
    assert loader.batch_sampler.batch_size.limit == limit  # type: ignore[union-attr]


def test_the_estimate_grows_with_the_model_and_takes_arrays() -> None:
    assert training_bytes(10, 9, dim=32, layers=2) * 4 == training_bytes(10, 9, dim=64, layers=4)
    n, r = np.array([10, 3]), np.array([9, 0])
    assert training_bytes(n, r, dim=8, layers=1).tolist() == [
        training_bytes(*size, dim=8, layers=1) for size in ((10, 9), (3, 0))
    ]


@pytest.mark.parametrize(
    ("points", "options", "error", "message"),
    [
        ([], {}, GraphError, "got no point sets"),
        (POINTS[0], {}, GraphError, "got a PointSet; expected PointSets"),
        (iter(POINTS), {}, GraphError, "expected PointSets from pointset.to_points_many"),
        (molecules(2), {}, GraphError, r"items are Data; expected point sets.*to_points_many\(graphs\)"),
        (POINTS, {"batch_size": 0}, SpecError, "got batch_size=0; expected a whole number, at least 1"),
        (POINTS, {"batch_size": 2.0}, SpecError, "got batch_size=2.0"),
        (POINTS, {"batch_size": None}, SpecError, "got batch_size=None"),
        (POINTS, {"batch_size": True}, SpecError, "got batch_size=True"),
        (POINTS, {"dim": 0}, SpecError, "got dim=0"),
        (POINTS, {"indices": [0, 60]}, SpecError, "indices go from 0 to 60; expected 0 to 59"),
        (POINTS, {"indices": [-1, 3]}, SpecError, "indices go from -1 to 3"),
        (POINTS, {"indices": []}, SpecError, "expected a row of whole numbers, at least one"),
        (POINTS, {"indices": np.ones(60, bool)}, SpecError, r"type bool.*mask.nonzero\(\)"),
        (POINTS, {"indices": [[1]]}, SpecError, r"shape \(1, 1\)"),
        (POINTS, {"shuffle": True, "sampler": [1]}, SpecError, "shuffle=True and a sampler"),
        (POINTS, {"dtype": torch.int64}, MatrixError, "expected a floating-point type"),
        (POINTS, {"collate_fn": list}, SpecError, "got a collate_fn"),
        (POINTS, {"memory_budget": "2 parsecs"}, SpecError, "memory_budget='2 parsecs'; expected a number of bytes"),
        (POINTS, {"memory_budget": 0}, SpecError, "memory_budget=0"),
        (POINTS, {"memory_budget": True}, SpecError, "memory_budget=True"),
        (POINTS, {"memory_budget": float("inf")}, SpecError, "memory_budget=inf"),
        (POINTS, {"memory_budget": "1GB", "drop_last": True}, SpecError, "memory_budget and drop_last=True"),
        (
            POINTS,
            {"memory_budget": LARGEST - 1},
            MemoryForecastError,
            r"of 60 has 11 nodes and needs about .* MB.*Raise",
        ),
    ],
)
def test_errors(points: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pointset.PointLoader(points, **options)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError, match="batchsize"):
        pointset.PointLoader(POINTS, batchsize=3)


def test_mixed_features_are_refused_at_once_and_the_graph_is_named() -> None:
    graphs = molecules(5)
    graphs[3].x = graphs[3].x.float()
    points = pointset.to_points_many(graphs, workers=1)
    with pytest.raises(GraphError, match=r"graph 3: x has shape .* and type torch.float32"):
        pointset.PointLoader(points, indices=[2, 3])
    assert len(pointset.PointLoader(points, indices=[2, 4])) == 2


def test_a_molecule_without_bonds_needs_no_bond_features() -> None:
    graphs = [nx.path_graph(n) for n in (3, 1, 2)]
    for graph in graphs:
        nx.set_node_attributes(graph, dict.fromkeys(graph.nodes, 1), "x")
        nx.set_edge_attributes(graph, dict.fromkeys(graph.edges, 2), "edge_attr")
    points = pointset.to_points_many(graphs, workers=1)
    (batch,) = pointset.PointLoader(points, 3)
    assert_same_batch(batch, pointset.collate(points).to(torch.float32))
    lonely = next(iter(pointset.PointLoader(points, 1, sampler=[1])))
    assert lonely.groups[0].edge_attr.shape == (0, 1)


class Sizes(lightning.LightningModule):
    """Predicts the number of nodes; learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[int] = []

    def predict_dataloader(self) -> Any:
        return pointset.PointLoader(POINTS, batch_size=16)

    def predict_step(self, batch: pointset.PointBatch, _index: int = 0) -> torch.Tensor:
        return batch.num_nodes

    def training_step(self, batch: pointset.PointBatch, _index: int) -> torch.Tensor:
        self.seen.append(batch.num_graphs)
        return self.weight * batch.num_graphs

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.fixture
def trainer() -> lightning.Trainer:
    return lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec:FutureWarning")  # Lightning 2.6
@pytest.mark.parametrize("options", [{"batch_size": 16}, {"memory_budget": BUDGET}, None])
def test_lightning_makes_the_loader_again_for_predicting(trainer: lightning.Trainer, options: Any) -> None:
    loader = (
        None if options is None else pointset.PointLoader(POINTS, indices=range(60), dtype=torch.float64, **options)
    )
    got = trainer.predict(Sizes(), loader)
    assert got is not None and torch.cat(got).tolist() == POINTS.num_nodes.tolist()  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec:FutureWarning")  # Lightning 2.6
def test_lightning_sees_every_graph_of_every_epoch_within_a_budget(trainer: lightning.Trainer) -> None:
    loader = pointset.PointLoader(POINTS, memory_budget=BUDGET, shuffle=True, generator=seeded())
    model = Sizes()
    trainer.fit(model, loader)
    assert len(model.seen) == 2 * len(loader) and sum(model.seen) == 2 * len(POINTS)


def test_dtype_of_the_points_is_respected() -> None:
    half = pointset.PointSets(POINTS.graphs, POINTS.eigenpairs, POINTS.matrix, torch.float16)
    assert_same_epoch(pointset.PointLoader(half, 7), ordinary(half))


def test_points_are_not_shared_with_the_batch() -> None:
    """Changing a batch must not change the points, nor the next epoch."""
    points = pointset.to_points_many(molecules(4), workers=1)
    loader = pointset.PointLoader(points, 4, dtype=torch.float64)
    before = next(iter(loader))
    for value in vars(next(iter(loader))).values():
        if isinstance(value, torch.Tensor):
            value.zero_()
    assert_same_batch(next(iter(loader)), before)
