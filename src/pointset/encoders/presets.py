"""The variants of the paper by name. A preset says which parts a model is made of; it has no flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from pointset.encoders.coordinates import (
    Coordinates,
    EdgeWeights,
    LearnedDeepSet,
    LearnedFromRoot,
    PairWeights,
    PlainDistances,
    RadialDistances,
    ReleasedCoordinates,
    ReleasedPairWeights,
    RootAndPolynomials,
    SquareRoot,
)
from pointset.encoders.psds import PSDS
from pointset.encoders.pst import PST, OneLayerPST, ReleasedPST, SummingPST
from pointset.errors import SpecError, did_you_mean
from pointset.points.matrices import Adjacency, Laplacian, NormalizedAdjacency


@dataclass(frozen=True)
class Preset:
    """The parts of a variant; each is a class that is called with the number of channels, if nothing else is said."""

    summary: str
    encoder: Callable[[int, int], nn.Module] = PST  # (channels, layers)
    function: Callable[[int], nn.Module] = LearnedFromRoot
    matrix: str = Laplacian.name
    coordinates: Callable[..., nn.Module] = Coordinates  # (function, weights of pairs or None, noise=…)
    pairs: type[PairWeights] = EdgeWeights
    distances: Callable[[int], nn.Module] | None = None


PRESETS = {
    "pst": Preset("Point Set Transformer, equations (1) to (5)"),
    "pst-released": Preset(
        "the model that the authors released",
        ReleasedPST,
        LearnedDeepSet,
        coordinates=ReleasedCoordinates,
        pairs=ReleasedPairWeights,
    ),
    "pst-gc": Preset("SRD coordinates: f is the square root, not learned", function=SquareRoot),
    "pst-sum": Preset("SRD coordinates and plain sums, equation (4) as printed: to count", SummingPST, SquareRoot),
    "pst-count": Preset("pst-sum with polynomials in the eigenvalues beside √Λ", SummingPST, RootAndPolynomials),
    # Its only attention is to see more than the matrix, so all of f is learned.
    "pst-onelayer": Preset(
        "one attention matrix for all layers, scalars and vectors not mixed", OneLayerPST, LearnedDeepSet
    ),
    "pst-adj": Preset("coordinates from the adjacency matrix", matrix=Adjacency.name),
    "pst-normadj": Preset("coordinates from D^-½AD^-½", matrix=NormalizedAdjacency.name),
    "pst-star": Preset("PST*: distances in space weigh the pairs", distances=RadialDistances),
    "pst-released-star": Preset(
        "the released model with distances in space",
        ReleasedPST,
        LearnedDeepSet,
        coordinates=ReleasedCoordinates,
        pairs=ReleasedPairWeights,
        distances=PlainDistances,
    ),
    "psds": Preset("Point Set DeepSet, Appendix K", PSDS),
}


def preset_named(name: str) -> Preset:
    """The preset of this name, or an error that lists them all."""
    if not isinstance(name, str) or name not in PRESETS:
        raise SpecError(
            f"got preset {name!r}; expected one of {', '.join(PRESETS)}{did_you_mean(str(name).lower(), list(PRESETS))}"
        )
    return PRESETS[name]
