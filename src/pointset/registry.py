"""Every model by name: the variants of the paper and the baselines that they are compared with.

:data:`PRESETS` is the only list of models: the names that a recipe accepts, ``pointset compare --list``, the reports
and the paper's tables are derived from it. A new preset is one entry here, and its parts wherever they belong. A part
is named by its import path and imported when a model is built, so reading the list needs no torch, and the encoders
know nothing of the baselines. Users add their own with :func:`register_encoder`.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args, overload

from pointset import extensions
from pointset.errors import SpecError, did_you_mean

Kind = Literal["paper", "baseline", "own"]  # own: registered by a user
Part = str | Callable[..., Any]  # an import path, or the class itself
MatrixName = Literal["laplacian", "adjacency", "normalized_adjacency", "augmented"]
Made = TypeVar("Made", bound=Callable[..., Any])


@dataclass(frozen=True)
class Preset:
    """A model by its parts. The defaults are those of ``pst``."""

    summary: str  # for lists
    title: str = ""  # the model inside a sentence; see :func:`preset_title`
    kind: Kind = "paper"
    encoder: Part = "pointset.encoders.pst.PST"  # (channels, layers)
    coordinates: Part = "pointset.encoders.coordinates.Coordinates"  # (function, pairs or None, noise=…)
    function: Part | None = "pointset.encoders.coordinates.LearnedFromRoot"  # (channels)
    pairs: Part = "pointset.encoders.coordinates.EdgeWeights"  # (edge spec, channels, distances or None)
    distances: Part | None = None  # (channels); the model then needs positions
    first_pairs: Part | None = None  # (edge spec, channels, distances or None): a state of pairs, or in its place
    matrix: str = "laplacian"

    @property
    def uses_positions(self) -> bool:
        """Whether graphs need ``pos``."""
        return self.distances is not None

    @property
    def matrices(self) -> tuple[str, ...]:
        """The matrices that its parts are made for, its own first."""
        function = self.function
        path = f"{function.__module__}.{function.__qualname__}" if isinstance(function, type) else function
        fit = ("laplacian",) if self.kind == "baseline" else _MADE_FOR.get(str(path), get_args(MatrixName))
        return (self.matrix, *(name for name in fit if name != self.matrix))


# Functions of the eigenvalues that are polynomials on an interval, beyond which they grow without bound: to the sixth
# power, 8 million for an eigenvalue of 8 of the Laplacian. All others take the sign and the root of |λ|.
_MADE_FOR = {
    "pointset.encoders.coordinates.RootAndWalks": ("normalized_adjacency",),
    "pointset.encoders.coordinates.RootAndPolynomials": ("laplacian", "augmented"),
}


def load_part(part: Part) -> Callable[..., Any]:
    """The class behind an import path."""
    if not isinstance(part, str):
        return part
    module, _, name = part.rpartition(".")
    loaded: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return loaded


def _baseline(summary: str, title: str, *, encoder: str, coordinates: str, function: str | None = None) -> Preset:
    """A model whose parts are in :mod:`pointset.baselines`."""
    encoder, coordinates = f"pointset.baselines.{encoder}", f"pointset.baselines.{coordinates}"
    function = None if function is None else f"pointset.baselines.{function}"
    return Preset(summary, title, "baseline", encoder, coordinates, function)


def _fast(
    summary: str,
    title: str = "",
    *,
    encoder: str = "FastPST",
    function: str = "RootAndWalks",
    matrix: str = "normalized_adjacency",
    distances: str | None = None,
) -> Preset:
    """``pst-fast``, or it with some parts changed."""
    return Preset(
        summary,
        title,
        encoder=f"pointset.encoders.fast.{encoder}",
        coordinates="pointset.encoders.fast.EdgeRounds",
        function=f"pointset.encoders.coordinates.{function}",
        distances=None if distances is None else f"pointset.encoders.fast.{distances}",
        first_pairs="pointset.encoders.fast.FirstPairs",
        matrix=matrix,
    )


def _linear(summary: str, title: str, *, encoder: str, first_pairs: str) -> Preset:
    """``pst-linear`` and ``pst-linear-edges``."""
    here = "pointset.encoders.linear"
    return Preset(
        summary,
        title,
        encoder=f"{here}.{encoder}",
        coordinates=f"{here}.LinearCoordinates",
        function="pointset.encoders.coordinates.RootAndWalks",
        first_pairs=f"{here}.{first_pairs}",
        matrix="normalized_adjacency",
    )


def _released(
    summary: str,
    title: str = "",
    *,
    encoder: str = "ReleasedPST",
    function: str = "",
    pairs: str = "ReleasedPairWeights",
    distances: str | None = None,
) -> Preset:
    """``pst-released``, or it with some parts changed."""
    here = "pointset.encoders.released"
    return Preset(
        summary,
        title,
        encoder=f"{here}.{encoder}",
        coordinates=f"{here}.ReleasedCoordinates",
        function=f"{here}.{function}" if function else "pointset.encoders.coordinates.LearnedDeepSet",
        pairs=f"{here}.{pairs}",
        distances=None if distances is None else f"{here}.{distances}",
    )


PRESETS: dict[str, Preset] = {
    "pst": Preset("Point Set Transformer, equations (1) to (5)", "the Point Set Transformer (PST)"),
    "pst-fast": _fast(
        "PST at the price of message passing: symmetric pairs with a state, random walks",
        "the Point Set Transformer (PST) in its fast variant",
    ),
    "pst-fast-star": _fast(
        "pst-fast with 3D positions: distances in the first pairs",
        "the Point Set Transformer (PST) in its fast variant, with distances in space",
        distances="FirstDistances",
    ),
    "pst-fast-count": _fast(
        "pst-fast with plain sums, on SRD and polynomials in the eigenvalues: to count",
        "the Point Set Transformer (PST) in its fast variant for counting",
        encoder="FastSummingPST",
        function="RootAndPolynomials",
        matrix="laplacian",
    ),
    "pst-fast-k1": _fast("pst-fast with as many channels of vectors and pairs as of scalars", encoder="WidePairsPST"),
    "pst-fast-k4": _fast("pst-fast with a quarter as many channels of vectors and pairs", encoder="NarrowPairsPST"),
    "pst-fast-stateless": _fast("pst-fast without a state of pairs: anew in each layer", encoder="StatelessPairsPST"),
    "pst-fast-roots": _fast("pst-fast without polynomials: f is √Λ in all channels", function="SquareRoot"),
    "pst-fast-laplacian": _fast(
        "pst-fast on the Laplacian: √Λ and polynomials", function="RootAndPolynomials", matrix="laplacian"
    ),
    "pst-linear": _linear(
        "PST in linear time: no pairs, products of heads that factor",
        "the Point Set Transformer (PST) in linear time",
        encoder="LinearPST",
        first_pairs="SumScale",
    ),
    "pst-linear-edges": _linear(
        "pst-linear with a local term: points also receive along edges",
        "the Point Set Transformer (PST) in linear time, with a local term over edges",
        encoder="LocalLinearPST",
        first_pairs="LocalTerms",
    ),
    "pst-released": _released(
        "the model that the authors released", "the Point Set Transformer (PST) as its authors released it"
    ),
    "pst-released-zinc": _released(
        "pst-released with their options for ZINC: eigenvalues embedded by one layer", function="ShortDeepSet"
    ),
    "pst-released-qm9": _released(
        "pst-released as they have it for QM9: categories of edges through a linear map", pairs="IndicatorPairWeights"
    ),
    "pst-released-peptides": _released(
        "pst-released with their options for Peptides-func: vectors not normalised", encoder="FreeVectorsPST"
    ),
    "pst-released-struct": _released(
        "pst-released with their options for Peptides-struct: the same, n^-0.95, four layers in f",
        encoder="SteepFreeVectorsPST",
        function="FourLayerDeepSet",
    ),
    "pst-gc": Preset(
        "SRD coordinates: f is the square root, not learned", function="pointset.encoders.coordinates.SquareRoot"
    ),
    "pst-sum": Preset(
        "SRD coordinates and plain sums, equation (4) as printed: to count",
        encoder="pointset.encoders.pst.SummingPST",
        function="pointset.encoders.coordinates.SquareRoot",
    ),
    "pst-count": Preset(
        "pst-sum with polynomials in the eigenvalues beside √Λ",
        encoder="pointset.encoders.pst.SummingPST",
        function="pointset.encoders.coordinates.RootAndPolynomials",
    ),
    "pst-onelayer": Preset(
        "one attention matrix for all layers, scalars and vectors not mixed",
        encoder="pointset.encoders.pst.OneLayerPST",
        # Its only attention must see more than the matrix, so all of f is learned.
        function="pointset.encoders.coordinates.LearnedDeepSet",
    ),
    "pst-adj": Preset("coordinates from the adjacency matrix", matrix="adjacency"),
    "pst-normadj": Preset("coordinates from D^-½AD^-½", matrix="normalized_adjacency"),
    "pst-star": Preset(
        "PST*: distances in space weigh the pairs",
        "the Point Set Transformer with distances in space (PST*)",
        distances="pointset.encoders.coordinates.RadialDistances",
    ),
    "pst-released-star": _released(
        "the released model with distances in space",
        "the Point Set Transformer with distances in space (PST*) as its authors released it",
        distances="PlainDistances",
    ),
    "pst-released-qm9-star": _released(
        "pst-released-qm9 with distances in space", pairs="IndicatorPairWeights", distances="PlainDistances"
    ),
    "psds": Preset(
        "Point Set DeepSet, Appendix K", "the Point Set DeepSet (PSDS)", encoder="pointset.encoders.psds.PSDS"
    ),
    "psds-released": _released(
        "the Point Set DeepSet that the authors released",
        "the Point Set DeepSet (PSDS) as its authors released it",
        encoder="ReleasedPSDS",
    ),
    "gin": _baseline(
        "GIN, with edge features GINE: message passing",
        "GIN, or GINE where edges have features (message passing)",
        encoder="message_passing.GIN",
        coordinates="graphs.EdgeList",
    ),
    "gcn": _baseline(
        "graph convolutional network",
        "GCN (message passing)",
        encoder="message_passing.GCN",
        coordinates="graphs.EdgeList",
    ),
    "gatedgcn": _baseline(
        "gated graph convolutions with states of edges",
        "GatedGCN (message passing)",
        encoder="message_passing.GatedGCN",
        coordinates="graphs.EdgeList",
    ),
    "gps": _baseline(
        "GPS: GIN(E) and attention over all nodes, random-walk encodings",
        "GPS (message passing and attention)",
        encoder="transformers.GPS",
        coordinates="graphs.EdgeListAndWalks",
    ),
    "transformer": _baseline(
        "transformer over all nodes with a Laplacian encoding",
        "a transformer with Laplacian encodings",
        encoder="transformers.LaplacianTransformer",
        coordinates="transformers.LaplacianEncoding",
        function="transformers.SignInvariantEncoding",
    ),
    "ppgn": _baseline(
        "PPGN: products of pair matrices, as strong as 2-FWL",
        "PPGN (products of pairs)",
        encoder="pairs.PPGN",
        coordinates="pairs.PairFeatures",
        function="pairs.PairStart",
    ),
    "nested-gin": _baseline(
        "NGNN: a GIN in the 3-hop subgraph of each node, with distances to it",
        "NGNN (a GIN in the neighbourhood of every node)",
        encoder="rooted.NestedGIN",
        coordinates="rooted.MessageWeights",
        function="rooted.EdgeScale",
    ),
    "id-gnn": _baseline(
        "ID-GNN: message passing in 3-hop subgraphs that knows the root",
        "ID-GNN (message passing that knows its root)",
        encoder="rooted.IDGNN",
        coordinates="rooted.MessageWeights",
        function="rooted.EdgeScale",
    ),
    "graphormer": _baseline(
        "Graphormer-style: attention with a bias by distances and edges",
        "a transformer with distances along paths, after Graphormer",
        encoder="transformers.Graphormer",
        coordinates="transformers.StructureBias",
        function="transformers.DistanceBias",
    ),
}


_BUILT_IN = frozenset(PRESETS)


def preset_names(kind: Kind | None = None) -> list[str]:
    """The names of all models, the paper's variants first; or of those of one kind."""
    return [name for name, preset in PRESETS.items() if kind is None or preset.kind == kind]


def preset_named(name: str) -> Preset:
    """The preset of this name.

    Raises:
        SpecError: there is none; the message lists them all.
    """
    preset = extensions.look_up("encoder", PRESETS, name)
    if preset is None:
        hint = did_you_mean(str(name).lower(), list(PRESETS))
        raise SpecError(f"got preset {name!r}; expected one of {', '.join(PRESETS)}{hint}{OWN_HINT}")
    return preset


def model_matrix(name: str, matrix: str | None = None) -> str:
    """The matrix of a model of this preset: the one given, where the preset's parts are made for it, or its own.

    Raises:
        SpecError: there is no such preset or matrix, or the two do not go together.
    """
    preset = preset_named(name)
    known = get_args(MatrixName)
    if matrix is None:
        return preset.matrix
    if matrix not in known:
        hint = did_you_mean(str(matrix), list(known))
        raise SpecError(f"got matrix={matrix!r} for a model; expected one of {', '.join(known)}{hint}")
    if matrix in preset.matrices:
        return matrix
    fit = " or ".join(map(repr, preset.matrices))
    if preset.kind == "baseline":
        raise SpecError(
            f"got matrix={matrix!r} for {name}, a baseline, which reads edges and weights from the points of the "
            f"Laplacian, so another matrix would not change what it knows; expected {fit}, or leave it out"
        )
    others = [other for other in preset_names() if matrix in PRESETS[other].matrices and _alike(PRESETS[other], preset)]
    remedy = f", such as {' or '.join(others)} with the same layers" if others else ""
    raise SpecError(
        f"got matrix={matrix!r} for {name}, whose polynomials in the eigenvalues are made for those of {fit} and grow "
        f"without bound beyond them; expected {fit}, or a preset without polynomials or with others{remedy}"
    )


def _alike(one: Preset, other: Preset) -> bool:
    return (one.encoder, one.distances, one.kind) == (other.encoder, other.distances, other.kind)


OWN_HINT = (
    "\nOne of your own is known once its module is imported: pointset --import my_module …, or in Python import it"
)


def is_preset(name: object) -> bool:
    """Whether there is one of this name; looks at what was registered, too."""
    return extensions.look_up("encoder", PRESETS, name) is not None


def is_own(name: str) -> bool:
    """Whether a user has registered it."""
    return name not in _BUILT_IN


def preset_title(name: str) -> str:
    """How a sentence calls the model: ``the Point Set Transformer (PST)``; also of a preset that is not known here."""
    preset = PRESETS.get(name)
    if preset is not None and preset.kind == "own":
        return preset.title or f"the user's own model ({name})"
    return preset.title if preset and preset.title else f"the Point Set Transformer (variant {name})"


def is_baseline(name: str) -> bool:
    """Whether the model of this name is a baseline: without coordinates, and so without noise on them."""
    return preset_named(name).kind == "baseline"


# --- a user's own


@overload
def register_encoder(
    name: str,
    encoder: None = None,
    *,
    like: str = ...,
    function: Callable[..., Any] | None = ...,
    matrix: str | None = ...,
    summary: str = ...,
    title: str = ...,
    replace: bool = ...,
) -> Callable[[Made], Made]: ...
@overload
def register_encoder(
    name: str,
    encoder: Made,
    *,
    like: str = ...,
    function: Callable[..., Any] | None = ...,
    matrix: str | None = ...,
    summary: str = ...,
    title: str = ...,
    replace: bool = ...,
) -> Made: ...
def register_encoder(
    name: str,
    encoder: Any = None,
    *,
    like: str = "pst",
    function: Callable[..., Any] | None = None,
    matrix: str | None = None,
    summary: str = "",
    title: str = "",
    replace: bool = False,
) -> Any:
    """Give an encoder of your own a name, under which recipes, the shell and bundles know it; also as a decorator.

    What stands before it (coordinates, f, weights of pairs) and behind it (pooling, head) is that of the preset
    ``like``.

    Args:
        name: the new name, for ``PointModel.from_preset(name)`` and ``model.preset=name``.
        encoder: an ``nn.Module`` class called with (channels, layers), whose ``forward`` takes a
            :class:`~pointset.encoders.PointState` (s (d, B, n), v (d, B, n, r)) and returns one with s of that shape.
        like: the preset whose other parts it takes.
        function: another f of the eigenvalues, called with (channels): λ (B, r) → f(λ) (d, B, r).
        matrix: another matrix; see :data:`pointset.points.matrices.MATRICES`.
        summary: a line for ``pointset compare --list``; by default the first line of the docstring.
        title: the model inside a sentence of a report.
        replace: take the place of an encoder of another definition that you have registered under this name.

    Raises:
        SpecError: the name is taken, or it is not such a class.

    Example:
        >>> import torch, pointset
        >>> @pointset.register_encoder("mean-field")
        ... class MeanField(torch.nn.Module):
        ...     def __init__(self, channels, layers):
        ...         super().__init__()
        ...         self.linear = torch.nn.Linear(channels, channels)
        ...
        ...     def forward(self, state):
        ...         lengths = state.v.square().sum(-1)
        ...         return state._replace(s=state.s + self.linear(lengths.movedim(0, -1)).movedim(-1, 0))
        >>> model = pointset.PointModel.from_preset("mean-field", dim=8, layers=1)
    """
    module = extensions.calling_module()

    def register(made: Made) -> Made:
        _check_encoder(name, made)
        earlier = PRESETS.get(name)
        same = earlier is not None and extensions.same_thing(earlier.encoder, made)
        extensions.check_name("encoder", name, name in _BUILT_IN, same, replace)
        PRESETS[name] = _own_preset(name, made, like, function, matrix, summary, title)
        extensions.note_registration("encoder", name, module)
        return made

    return register if encoder is None else register(encoder)


def _own_preset(
    name: str,
    encoder: Callable[..., Any],
    like: str,
    function: Callable[..., Any] | None,
    matrix: str | None,
    summary: str,
    title: str,
) -> Preset:
    base = preset_named(like)
    if base.kind == "baseline":
        raise SpecError(
            f"got like={like!r}, a baseline, whose encoder takes other inputs; expected one of "
            f"{', '.join(preset_names('paper'))}"
        )
    text = (inspect.getdoc(encoder) or "").strip().partition("\n")[0]
    return dataclasses.replace(
        base,
        summary=summary or text.rstrip(".") or f"{name}, an encoder of your own",
        title=title,
        kind="own",
        encoder=encoder,
        function=base.function if function is None else function,
        matrix=base.matrix if matrix is None else load_part("pointset.points.matrices.matrix_named")(matrix).name,
    )


def _check_encoder(name: str, encoder: object) -> None:
    """Refuse what could not be built or called, before a recipe names it."""
    from torch import nn

    example = "class MyEncoder(torch.nn.Module) with __init__(self, channels, layers) and forward(self, state)"
    if isinstance(encoder, nn.Module):
        raise SpecError(
            f"got an instance of {type(encoder).__name__} as the encoder {name!r}; expected the class itself, which a "
            f"recipe builds in its own size: {example}"
        )
    if not callable(encoder) or (isinstance(encoder, type) and not issubclass(encoder, nn.Module)):
        got = encoder.__name__ if isinstance(encoder, type) else type(encoder).__name__
        raise SpecError(f"got {got} as the encoder {name!r}, which is not an nn.Module class; expected {example}")
    _check_call(f"the encoder {name!r}", encoder, 2, "(channels, layers)", example)
    if isinstance(encoder, type):
        if encoder.forward is nn.Module.forward:
            raise SpecError(f"the encoder {name!r} has no forward; expected {example}")
        _check_call(f"forward of the encoder {name!r}", encoder.forward, 2, "(self, state)", example)


def _check_call(what: str, function: Callable[..., Any], arguments: int, words: str, example: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a C function: nothing is known
        return
    try:
        signature.bind(*[None] * arguments)
    except TypeError as error:
        raise SpecError(f"{what} cannot be called with {words}: {error}; expected {example}") from None
