"""Whether a model knows graphs like this one: its applicability domain (:class:`Domain`), kept in the bundle.

A graph is in the domain if all of these hold:

1. it has no fewer and no more nodes than the graphs of the training part, and none of a category (an element, a charge)
   that does not occur there: what the model does with those was never learned;
2. its representation is no farther from those of the training part (mean Euclidean distance to the 5 nearest, channels
   in units of their standard deviation) than 99 % of the training graphs are from the others;
3. of molecules, its Tanimoto similarity to the nearest training molecule (Morgan fingerprints of radius 2, 2048 bits)
   is at least what 95 % of the training molecules have to their nearest other one.

So about 95 % of new graphs from where the training part came from are inside. The bounds come from the training part
and not from validation, because a validation part of other scaffolds is meant to be unlike the training part: bounds
that take in most of it would take in drugs for a model of small solvents.

Of large training parts a random subset is kept: 10,000 fingerprints of 256 bytes, 2,000 representations in 16 bits; the
bounds are those of the subset, so they fit to what is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pointset.arrays import Array, Flags, Floats, Integers
from pointset.native.similarity import FingerprintSet, Packed
from pointset.specs import Categories, Spec

if TYPE_CHECKING:
    from pointset.training.bundle import Place
    from pointset.training.calibration import Arrays

MOST_FINGERPRINTS = 10_000
MOST_REPRESENTATIONS = 2_000
LEAST_GRAPHS = 20  # of the training part; fewer do not say what is usual
_NEIGHBOURS = 5  # whose distance counts
_MORE_NEIGHBOURS = 10  # that are named
_INSIDE_BY_SIMILARITY = 0.95
_INSIDE_BY_DISTANCE = 0.99
_BYTES = 256  # of a fingerprint
_LEAST_SPREAD = 1e-2  # of a channel, in units of the mean: one that hardly varies in training must not decide alone
_LARGEST = 6e4  # what 16 bits can hold
_BLOCK = 1_024  # rows whose distances are computed together


class InDomain(NamedTuple):
    """How near graphs are to the training part, (G,) each."""

    similarity: Floats | None  # of molecules: Tanimoto to the nearest; NaN without a fingerprint
    distance: Floats  # mean to the nearest representations
    neighbours: Integers  # (G, at most 10) which of the representations are nearest, in any order
    inside: Flags


@dataclass(frozen=True, eq=False)
class Domain:
    """What a model was trained on, as far as it is needed to recognise graphs that are unlike it."""

    least_nodes: int
    most_nodes: int
    mean: Floats  # (d,) of representations
    spread: Floats  # (d,)
    representations: NDArray[np.float32]  # (R, d) (h − mean) / spread, exact in 16 bits
    largest_distance: float
    fingerprints: FingerprintSet | None = None
    least_similarity: float = 0.0
    categories: Flags | None = None  # (Σ sizes,) of nodes with categories: which of them occur

    @classmethod
    def fit(
        cls,
        num_nodes: Integers,
        representations: Array,
        fingerprints: Packed | None,
        *,
        categories: Flags | None = None,
        threads: int = 1,
    ) -> Domain | None:
        """From the training part: sizes (G,), representations (G, d), fingerprints (G, 256) of molecules, categories
        (Σ sizes,) of its nodes that occur.

        None where there are too few graphs to say what is usual.
        """
        if len(num_nodes) < LEAST_GRAPHS:
            return None
        chosen = representations[subset(len(representations), MOST_REPRESENTATIONS)].astype(np.float64)
        mean, spread = chosen.mean(0), chosen.std(0)
        spread = np.maximum(spread, _LEAST_SPREAD * float(spread.mean()) or 1.0)
        kept = np.clip((chosen - mean) / spread, -_LARGEST, _LARGEST).astype(np.float16).astype(np.float32)
        others = _nearest(kept, kept, leave_out_self=True)[0]
        similar, least = None, 0.0
        if fingerprints is not None:
            similar = FingerprintSet(fingerprints[subset(len(fingerprints), MOST_FINGERPRINTS)])
            least = float(np.quantile(similar.nearest_others(threads=threads), 1 - _INSIDE_BY_SIMILARITY))
        largest = float(np.quantile(others, _INSIDE_BY_DISTANCE))
        nodes = int(num_nodes.min()), int(num_nodes.max())
        return cls(*nodes, mean, spread, kept, largest, similar, least, categories)

    def __call__(
        self,
        num_nodes: Integers,
        representations: Array,
        fingerprints: Packed | None,
        *,
        strange: Flags | None = None,
        threads: int = 1,
    ) -> InDomain:
        """How near graphs are: sizes (G,), representations (G, d), fingerprints (G, 256) where they are molecules, and
        whether they are :meth:`strange`.
        """
        scaled = ((representations.astype(np.float64) - self.mean) / self.spread).astype(np.float32)
        distance, neighbours = _nearest(scaled, self.representations)
        inside = (num_nodes >= self.least_nodes) & (num_nodes <= self.most_nodes) & (distance <= self.largest_distance)
        if strange is not None:
            inside &= ~strange
        similarity = None
        if self.fingerprints is not None and fingerprints is not None:
            similarity = self.fingerprints.nearest(fingerprints, threads=threads)
            similarity[~fingerprints.any(1)] = np.nan  # a graph of which no fingerprint is known
            inside &= ~(similarity < self.least_similarity)
        return InDomain(similarity, distance, neighbours, inside)

    def strange(self, spec: Spec, x: Tensor | None, graphs: Integers, count: int) -> Flags | None:
        """(G,) whether any node of a graph has a category that does not occur in the training part.

        Args:
            spec: of the node features.
            x: (N, c) of all nodes.
            graphs: (N,) to which graph each belongs.
            count: G.
        """
        if self.categories is None or x is None or not isinstance(spec, Categories):
            return None
        unknown = ~self.categories[x.cpu().numpy() + np.array(spec.starts)].all(1)
        return np.bincount(graphs[unknown], minlength=count).astype(np.bool_)

    @property
    def references(self) -> int:
        """Graphs of the training part that are compared with."""
        return len(self.representations) if self.fingerprints is None else len(self.fingerprints)

    def as_plain(self) -> tuple[dict[str, Any], Arrays]:
        """Values for JSON, and arrays."""
        plain = {
            "nodes": [self.least_nodes, self.most_nodes],
            "largest_distance": self.largest_distance,
            "least_similarity": None if self.fingerprints is None else self.least_similarity,
        }
        arrays: dict[str, NDArray[Any]] = {
            "mean": self.mean,
            "spread": self.spread,
            "representations": self.representations.astype(np.float16),
        }
        if self.fingerprints is not None:
            arrays["fingerprints"] = self.fingerprints.packed
        if self.categories is not None:
            arrays["categories"] = self.categories.astype(np.uint8)
        return plain, arrays

    @classmethod
    def from_plain(cls, place: Place, arrays: Arrays, channels: int, node: Spec) -> Domain:
        """The inverse of :meth:`as_plain`, for such node features.

        Raises FileFormatError where it is not what :meth:`as_plain` gave.
        """
        nodes = [number.whole(0) for number in place.at("nodes").items()]
        similarity = place.at("least_similarity")
        shapes = {"mean": (channels,), "spread": (channels,), "representations": (-1, channels)}
        kinds: dict[str, type] = {"mean": np.float64, "spread": np.float64, "representations": np.float16}
        if similarity.value is not None:
            shapes["fingerprints"], kinds["fingerprints"] = (-1, _BYTES), np.uint8
        for name, shape in shapes.items():
            array = arrays.get(name)
            fits = array is not None and array.dtype == kinds[name] and array.ndim == len(shape) and len(array)
            if array is None or not fits or array.shape[-1] != shape[-1] or not np.isfinite(array).all():
                raise place.wrong(f"an array {name} of finite numbers, of shape {shape}, in the bundle")
        categories = arrays.get("categories")  # older bundles have none
        known = sum(node.sizes) if isinstance(node, Categories) else 0
        if categories is not None and (categories.dtype != np.uint8 or categories.shape != (known,)):
            raise place.wrong(f"an array categories of {known} zeros and ones, in the bundle")
        if len(nodes) != 2 or nodes[0] > nodes[1] or (arrays["spread"] <= 0).any():
            raise place.wrong("the least and the largest number of nodes, and positive spreads")
        return cls(
            nodes[0],
            nodes[1],
            arrays["mean"],
            arrays["spread"],
            arrays["representations"].astype(np.float32),
            place.at("largest_distance").number(),
            FingerprintSet(arrays["fingerprints"]) if similarity.value is not None else None,
            0.0 if similarity.value is None else similarity.number(),
            None if categories is None else categories.astype(np.bool_),
        )


def categories_of(spec: Spec, x: Tensor | None) -> Flags | None:
    """(Σ sizes,) which categories occur among nodes (N, c); None of nodes without categories."""
    if x is None or not isinstance(spec, Categories):
        return None
    found = np.zeros(sum(spec.sizes), dtype=np.bool_)
    found[(x.cpu().numpy() + np.array(spec.starts)).ravel()] = True
    return found


def subset(count: int, most: int) -> Integers:
    """At most so many positions, in order; the same for the same count."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def _nearest(
    rows: NDArray[np.float32], references: NDArray[np.float32], *, leave_out_self: bool = False
) -> tuple[Floats, Integers]:
    """(G, d), (R, d) → (G,) the mean distance to the nearest references, and which are nearest, (G, at most 10).

    The distance is ∞ where a row is not finite. ``leave_out_self``: rows and references are the same, and a row is not
    its own neighbour.
    """
    squares = np.einsum("rd,rd->r", references, references)
    count, more = (min(number, len(references) - leave_out_self) for number in (_NEIGHBOURS, _MORE_NEIGHBOURS))
    distances, neighbours = np.zeros(len(rows)), np.zeros((len(rows), more), dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        with np.errstate(invalid="ignore", over="ignore"):
            squared = np.einsum("gd,gd->g", block, block)[:, None] + squares - 2 * (block @ references.T)
        squared = np.where(np.isfinite(squared), np.maximum(squared, 0), np.inf)
        if leave_out_self:
            squared[np.arange(len(block)), start + np.arange(len(block))] = np.inf
        nearest, chosen = torch.topk(torch.from_numpy(squared), more, largest=False)  # 4 × as fast as argpartition
        distances[start : start + _BLOCK] = np.sqrt(nearest[:, :count].numpy(), dtype=np.float64).mean(1)
        neighbours[start : start + _BLOCK] = chosen.numpy()
    return distances, neighbours
