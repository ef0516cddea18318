"""One pair of graphs, one model: Siamese training, then the paired test (:func:`compare`).

As published: a fresh model for each pair is trained on 32 relabelled copies of both graphs to give them different rows,
then tested on copies of the pair, and on two sets of copies of one graph, where it must find no difference.

What is done here besides, as a model on points gives all copies of a graph one row up to rounding:

- several random beginnings; the one with the lowest loss is trained;
- between encoder and the last linear map, rows are centred and scaled by what the copies show at the beginning, but no
  difference is blown up that may be rounding (:class:`Head`);
- contrastive loss max(0, 1 − ‖x − y‖)²: on centred rows a cosine would be −1 however small the difference;
- the weights with the lowest loss on the copies are kept, the beginning included.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data

from pointset.baselines.message_passing import GINConvolution, sum_at
from pointset.datasets.benchmarks.brec import EdgeList, GraphPair
from pointset.encoders.batch import PointBatch, collate
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.layers import VectorBound
from pointset.encoders.model import PointModel
from pointset.errors import SpecError, did_you_mean
from pointset.files import finite
from pointset.points.convert import to_points_many
from pointset.registry import PRESETS, preset_names

# Weights begin larger than training elsewhere does, and vectors may be longer: what sets two of these graphs apart are
# terms of high order in the inner products, which else drown in rounding (benchmarks/brec_beginnings.py).
ENCODER_GAIN, FUNCTION_GAIN, REACH = 3.5, 3.0, 10.0
COPIES = 32  # q, of each graph
ROW = 16  # d, numbers that a graph is given
THRESHOLD = 72.34  # of T²
EPSILON = 1e-7
_TESTED_AT_ONCE = 16  # graphs


@dataclass(frozen=True)
class Settings:
    """How models are built and trained."""

    seed: int = 0
    channels: int = 16
    layers: int = 5
    beginnings: int = 8
    epochs: int = 1
    batch: int = 2  # pairs in a step
    learning_rate: float = 1e-5
    enough: float = 0.05  # loss at which training ends
    precision: str = "float64"

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and points."""
        return torch.float64 if self.precision == "float64" else torch.float32


@dataclass(frozen=True)
class Outcome:
    """Of one model, or one invariant, on one pair of graphs."""

    pair: int
    category: str
    nodes: int
    separated: bool
    unreliable: bool  # it distinguished a graph from a relabelled copy of itself
    seconds: float
    t_squared: float | None = None  # of the two graphs; None for an invariant, which needs no test
    t_squared_of_copies: float | None = None  # of copies of the first graph
    distance: float | None = None  # mean length of the difference of the rows
    loss: float | None = None  # of the weights that were tested
    steps: int | None = None  # of training

    def as_dict(self) -> dict[str, Any]:
        """For JSON; numbers that are not finite become None."""
        content: dict[str, Any] = finite(asdict(self))
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Outcome:
        """What :meth:`as_dict` gave; a TypeError where an entry is missing, unknown, or of another kind."""
        outcome = cls(**content)
        kinds = {int: ("pair", "nodes"), str: ("category",), bool: ("separated", "unreliable"), float: ("seconds",)}
        for kind, names in kinds.items():
            for name in names:
                if type(value := getattr(outcome, name)) is not kind:
                    raise TypeError(f"{name}={value!r}; expected {kind.__name__}")
        return outcome


def compare(pair: GraphPair, contestant: Contestant, settings: Settings) -> Outcome:
    """Train a model on the copies of a pair and test it; the same pair and settings give the same outcome."""
    start = time.perf_counter()
    generator = np.random.default_rng([settings.seed, pair.number])
    first, second, others = (_copies(graph, generator) for graph in (pair.first, pair.second, pair.first))
    batches = [
        contestant.prepare(first[begin : begin + settings.batch] + second[begin : begin + settings.batch])
        for begin in range(0, COPIES, settings.batch)
    ]
    # the global generator, as modules draw their first weights from it: put back afterwards
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator.integers(2**62)))
        model, loss, steps = _trained(contestant, batches, settings)
    rows = [_rows(model, graphs, contestant) for graphs in (first, second, others)]
    of_pair, of_copies = t_squared(rows[0], rows[1]), t_squared(rows[0], rows[2])
    finite = all(bool(some.isfinite().all()) for some in rows)
    return Outcome(
        pair=pair.number,
        category=pair.category,
        nodes=pair.num_nodes,
        separated=finite and of_pair > THRESHOLD,
        unreliable=not finite or of_copies > THRESHOLD,
        seconds=round(time.perf_counter() - start, 3),
        t_squared=of_pair,
        t_squared_of_copies=of_copies,
        distance=float((rows[0] - rows[1]).mean(0).norm()),
        loss=loss,
        steps=steps,
    )


def _trained(contestant: Contestant, batches: list[Any], settings: Settings) -> tuple[Siamese, float, int]:
    """A model, the loss of its weights, which are the best that were seen, and the steps made."""
    model, lowest = _best_beginning(contestant, batches[0], settings)
    best = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, eps=1e-12)
    steps = 0
    for batch in batches * settings.epochs:
        if lowest < settings.enough:
            break
        loss = contrastive_loss(model(batch))
        if (value := float(loss.detach())) < lowest:
            best, lowest = copy.deepcopy(model.state_dict()), value
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
    model.load_state_dict(best)
    return model, lowest, steps


def _best_beginning(contestant: Contestant, batch: Any, settings: Settings) -> tuple[Siamese, float]:
    """Of several random models the one of lowest loss, or the first that needs no training."""
    found: list[tuple[float, Siamese]] = []
    with torch.no_grad():
        for _ in range(settings.beginnings):
            encoder: Any = contestant.build(settings.channels, settings.layers).to(settings.dtype)
            rows = encoder.embed(batch)
            head = Head(rows)
            found.append((float(contrastive_loss(head(rows))), Siamese(encoder, head)))
            if found[-1][0] < settings.enough:
                break
    lowest, model = min(found, key=lambda one: one[0])
    return model, lowest


def contrastive_loss(rows: Tensor) -> Tensor:
    """max(0, 1 − ‖x − y‖)², the mean over the pairs of a batch: first all copies x, then all y."""
    first, second = rows.chunk(2)
    loss: Tensor = torch.relu(1 - (first - second).norm(dim=1)).square().mean()
    return loss


def _rows(model: Siamese, graphs: Sequence[EdgeList], contestant: Contestant) -> Tensor:
    """(graphs, 16), a few at a time: large graphs need much memory."""
    pieces = (graphs[begin : begin + _TESTED_AT_ONCE] for begin in range(0, len(graphs), _TESTED_AT_ONCE))
    with torch.no_grad():
        return torch.cat([model(contestant.prepare(piece)) for piece in pieces])


def _copies(graph: EdgeList, generator: np.random.Generator) -> list[EdgeList]:
    """The graph with its nodes in 32 random orders."""
    nodes, edges = graph
    return [(nodes, torch.from_numpy(generator.permutation(nodes))[edges]) for _ in range(COPIES)]


def t_squared(first: Tensor, second: Tensor) -> float:
    """T² of the rows (q, d) of q relabelled copies of two graphs; infinite where a row is not finite.

    D_c = x_c − y_c with mean D̄ and covariance S; Hotelling's statistic is

        T² = q D̄ᵀ (S + ε I)⁻¹ D̄,    ε = 10⁻⁷,

    compared with 72.34 ≈ (q − 1) d / (q − d) · F_{d, q−d}(0.95). For a model that gives all copies of a graph one row,
    S is rounding noise, which the test alone would examine for a mean: one in twenty pairs would count as separated. ε
    is the remedy that BREC's authors name for such models: means below √(72.34 ε / q) ≈ 5·10⁻⁴ count as none.
    """
    difference = (first - second).to(torch.float64)
    if not difference.isfinite().all():
        return float("inf")
    mean = difference.mean(0)
    covariance = torch.cov(difference.mT) + EPSILON * torch.eye(len(mean), dtype=torch.float64)
    return float(len(difference) * (mean @ torch.linalg.solve(covariance, mean)))


class Head(nn.Module):
    """(h − centre) / width, then a linear map to 16 numbers.

    Centre and width of each channel are the mean and the deviation over the copies of both graphs before training; the
    width is at least ``FLOOR`` of the largest |h|, about 10⁴ times what relabelling does in this precision.
    """

    FLOOR: ClassVar = {torch.float64: 1e-8, torch.float32: 1e-2}
    centre: Tensor
    width: Tensor

    def __init__(self, rows: Tensor):
        super().__init__()
        floor = self.FLOOR[rows.dtype] * rows.abs().max().clamp(min=torch.finfo(rows.dtype).tiny)
        self.register_buffer("centre", rows.mean(0))
        self.register_buffer("width", rows.std(0).clamp(min=float(floor)))
        self.linear = nn.Linear(rows.shape[1], ROW, bias=False, dtype=rows.dtype)

    def forward(self, h: Tensor) -> Tensor:
        """(graphs, channels) → (graphs, 16)."""
        rows: Tensor = self.linear((h - self.centre) / self.width)
        return rows


class Siamese(nn.Module):
    """An encoder and its head."""

    def __init__(self, encoder: Any, head: Head):
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, batch: Any) -> Tensor:
        """(graphs, 16)."""
        rows: Tensor = self.head(self.encoder.embed(batch))
        return rows


@dataclass(frozen=True)
class Contestant:
    """A kind of model."""

    build: Callable[[int, int], nn.Module]  # (channels, layers) → a module with ``embed(batch)`` → (graphs, channels)
    prepare: Callable[[Sequence[EdgeList]], Any]  # graphs → what ``embed`` takes


def contestant_named(name: str) -> Contestant:
    """``gin`` or a preset of :class:`PointModel` that needs no positions."""
    if name == "gin":
        return Contestant(PlainGIN, _pyg_batch)
    if name not in (known := trained_names()):
        raise SpecError(f"got the model {name!r}; expected one of {', '.join(known)}{did_you_mean(name, known)}")

    def build(channels: int, layers: int) -> PointModel:
        return sharpened(PointModel.from_preset(name, dim=channels, layers=layers))

    def prepare(graphs: Sequence[EdgeList]) -> PointBatch:
        return collate(list(to_points_many(graphs, matrix=PRESETS[name].matrix, progress=False)))

    return Contestant(build, prepare)


def trained_names() -> list[str]:
    """All models that are trained."""
    return [*(name for name in preset_names("paper") if not PRESETS[name].uses_positions), "gin"]


class PlainGIN(nn.Module):
    """h_i ← MLP((1 + ε) h_i + Σ_{j ∈ N(i)} h_j) in each layer; h begins as 1, and the graph's row is Σ_i h_i.

    Without norms and residuals, so that its rows are those of the paired test's definition: as strong as 1-WL.
    """

    def __init__(self, channels: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(
            GINConvolution(nn.Sequential(nn.Linear(inputs, channels), nn.SiLU(), nn.Linear(channels, channels)))
            for inputs in [1, *[channels] * (layers - 1)]
        )

    def embed(self, batch: Batch) -> Tensor:
        """A PyG batch of graphs without features → (graphs, channels)."""
        h = torch.ones(batch.num_nodes, 1, dtype=next(self.parameters()).dtype)
        for layer in self.layers:
            h = layer(h, batch.edge_index)
        return sum_at(batch.batch, h, batch.num_graphs)


def _pyg_batch(graphs: Sequence[EdgeList]) -> Batch:
    """Graphs → a PyG batch, both directions of every edge."""
    return Batch.from_data_list(
        [Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), num_nodes=nodes) for nodes, edges in graphs]
    )


def sharpened(
    model: PointModel, encoder: float = ENCODER_GAIN, function: float = FUNCTION_GAIN, reach: float = REACH
) -> PointModel:
    """The model itself, with the weight matrices of its encoder and all of f multiplied, and vectors bounded later."""
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            if parameter.dim() > 1:
                parameter.mul_(encoder)
        for part in model.modules():
            if isinstance(part, Coordinates):
                for parameter in part.function.parameters():
                    parameter.mul_(function)
            if isinstance(part, VectorBound):
                part.reach = reach
    return model
