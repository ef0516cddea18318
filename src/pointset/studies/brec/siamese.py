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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from pointset.datasets.graph_pairs import EdgeList, GraphPair
from pointset.studies.brec.contestants import Contestant
from pointset.studies.brec.outcome import Outcome
from pointset.studies.brec.paired_test import COPIES, ROW, THRESHOLD, t_squared

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
    kept = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, eps=1e-12)
    steps = 0
    for batch in batches * settings.epochs:
        if lowest < settings.enough:
            break
        loss = contrastive_loss(model(batch))
        if (value := float(loss.detach())) < lowest:
            kept, lowest = copy.deepcopy(model.state_dict()), value
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
    model.load_state_dict(kept)
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
