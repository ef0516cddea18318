"""A whole model, points in and predictions out; what it computes for one graph, and its parts in a table."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pointset.encoders.batch import PointBatch, PointGroup, collate
from pointset.encoders.buckets import Padding, takes_padding
from pointset.encoders.coordinates import Coordinates, NodeReferences, NodeScalars
from pointset.encoders.layers import (
    AttentionMap,
    BatchEncoder,
    Level,
    PointState,
    Pooling,
    Readout,
    represented,
    size_scale,
)
from pointset.encoders.native import native_rows, path_of, torch_path
from pointset.encoders.products import by_autograd
from pointset.errors import SpecError
from pointset.points.convert import to_points_many
from pointset.points.point_set import PointSet
from pointset.points.solve import check_rank
from pointset.points.stale import check_points_are_current
from pointset.registry import load_part, model_matrix, preset_named
from pointset.specs import Categories, Spec, check_whole_numbers, read_spec

if TYPE_CHECKING:
    from pointset.encoders.export_files import Exported

Function = TypeVar("Function", bound=Callable[..., torch.Tensor])

# Large groups are computed in pieces: tensors beyond the cache and beyond what the allocator keeps cost up to a quarter
# of the time; and checkpointing holds the activations of one piece at a time. Bytes of a piece's vectors.
_PIECE_BYTES = 4_000_000


class Settings(NamedTuple):
    """What :meth:`PointModel.from_preset` was called with: enough to build the same model again."""

    preset: str
    node: Spec
    edge: Spec
    out: int
    level: Level
    dim: int
    layers: int
    pooling: Pooling
    noise: float
    descriptors: int = 0
    dropout: float = 0.0
    rank: int | None = None
    references: bool = False
    matrix: str | None = None  # None: the preset's own


class PointModel(nn.Module):
    """scalars and coordinates → encoder → readout.

    An ordinary module: ``model(batch)`` gives (graphs, out), or (nodes, out) at level "node", in input order; and
    ``model(batch, pairs=…)`` gives (pairs, out) at level "edge".
    The result for a graph depends neither on the rest of the batch, nor on the order of its nodes, nor on the basis in
    which its points are written. Make one by :meth:`from_preset`, or put your own parts together:

    >>> model = pointset.PointModel(scalars, coordinates, encoder, readout, matrix="laplacian")  # doctest: +SKIP

    Args:
        scalars: module, group → s (d, B, n).
        coordinates: module, group and generator → v (d, B, n, r).
        encoder: module, :class:`PointState` → :class:`PointState`.
        readout: module, s → (B, out) or (B·n, out).
        matrix: the matrix whose points it takes.
        pairs: module, group → p (h, B, n, n), the first state of pairs, for an encoder that has one; or whatever an
            encoder without pairs takes in its place.
        rank: how many eigenpairs of a graph it takes, those of largest |λ|; None: all.
        references: what nodes contribute by themselves, added to the outputs.
    """

    def __init__(
        self,
        scalars: nn.Module,
        coordinates: nn.Module,
        encoder: nn.Module,
        readout: Readout,
        *,
        matrix: str,
        pairs: nn.Module | None = None,
        rank: int | None = None,
        references: NodeReferences | None = None,
    ):
        super().__init__()
        self.scalars, self.coordinates, self.encoder, self.readout = scalars, coordinates, encoder, readout
        self.pairs, self.references = pairs, references
        self.matrix, self.rank = matrix, rank
        self.checkpointing = False  # True: activations are computed again in the backward pass instead of kept
        self.settings: Settings | None = None

    @classmethod
    def from_preset(
        cls,
        name: str = "pst",
        *,
        node: Any = None,
        edge: Any = None,
        out: int = 1,
        level: Level = "graph",
        dim: int = 64,
        layers: int = 4,
        pooling: Pooling = "mean",
        noise: float = 0.0,
        descriptors: int = 0,
        dropout: float = 0.0,
        rank: int | None = None,
        references: bool = False,
        matrix: str | None = None,
    ) -> PointModel:
        """A variant of the paper, or a baseline, by name.

        Args:
            name: one of :data:`pointset.registry.PRESETS`, such as ``pst``, ``psds`` or ``gin``; ``pointset compare
                --list`` shows them all.
            node: node features: ``Categories(28)`` (or 28), ``Categories(119, 5)`` (or (119, 5)), ``Reals(3)``, None.
            edge: edge features, likewise.
            out: number of outputs.
            level: ``"graph"``; ``"node"`` for an output at each node; or ``"edge"`` for one of each pair of nodes that
                is asked for, Σ_c w_c h_ic h_jc + b of their last scalars h: an inner product of two points.
            dim: d, the number of channels; of ``pst-fast`` those of the scalars, vectors and pairs have half as many.
            layers: number of layers.
            pooling: over the points, for level "graph": ``"mean"``, ``"sum"`` or ``"max"``.
            noise: gn of the paper: Gaussian noise on the coordinates, in training only; baselines ignore it.
            descriptors: how many numbers each graph brings as a whole (``data.descriptors`` of shape (1, c)), which are
                joined to its pooled representation.
            dropout: share of the representation's channels that are zero in a training step.
            rank: take at most so many eigenpairs of a graph, those of largest |λ| with whole eigenspaces, so that a
                graph of n nodes costs n²·rank instead of n³; None: all, without which points are not the whole graph.
                Points that you make yourself are taken as they are.
            references: whether ``model.references`` adds a number for each category of each node to the outputs; zeros,
                until something is fitted to the training data.
            matrix: the matrix whose points it takes, in place of the preset's own; see
                :attr:`pointset.registry.Preset.matrices` on which presets are made for which.

        Raises:
            SpecError: there is no such preset, no model of it has this size, or its parts are not made for this matrix.

        Example:
            >>> import networkx as nx, pointset
            >>> model = pointset.PointModel.from_preset("pst", out=2, dim=16, layers=2)
            >>> points = [pointset.to_points(nx.cycle_graph(n)) for n in (5, 8)]
            >>> model(pointset.collate(points)).shape
            torch.Size([2, 2])
        """
        node, edge = read_spec(node, "node"), read_spec(edge, "edge")
        preset, chosen = preset_named(name), model_matrix(name, matrix)
        more = descriptors, dropout, rank, references, None if chosen == preset.matrix else chosen
        settings = Settings(name, node, edge, out, level, dim, layers, pooling, noise, *more)
        _check(settings)
        encoder = load_part(preset.encoder)
        channels = _vector_channels(settings, getattr(encoder, "REPEATS", 1))
        distances = None if preset.distances is None else load_part(preset.distances)(channels)
        first_pairs = None
        if preset.first_pairs is not None:  # which distances then belong to, instead of to the coordinates
            first_pairs, distances = load_part(preset.first_pairs)(edge, channels, distances), None
        weighted = edge is not None or distances is not None
        weights = load_part(preset.pairs)(edge, channels, distances) if weighted else None
        scalars = NodeScalars(node, dim)
        function = None if preset.function is None else load_part(preset.function)(channels)
        model = cls(
            scalars,
            load_part(preset.coordinates)(function, weights, noise=noise),
            encoder(dim, layers),
            Readout(dim, out, level, pooling, descriptors, dropout),
            matrix=chosen,
            pairs=first_pairs,
            rank=rank,
            references=NodeReferences(node, out) if references else None,
        )
        model.settings = settings
        return model

    def forward(self, batch: Any, *, pairs: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """A :class:`PointBatch`, point sets or a PyG ``Batch`` → (graphs, out), (nodes, out) or (pairs, out).

        Args:
            batch: what :func:`pointset.collate` gives; a PyG batch or a list of graphs is converted on the way.
            pairs: (P, 2) for level "edge", nodes counted through all graphs as in PyG's batches; by default those of
                the batch.
            generator: for the noise on the coordinates and the dropout, where the model has any and is in training.

        Returns:
            Outputs in the order of the graphs, nodes or pairs that came in.
        """
        if pairs is not None:
            batch = replace(self.read(batch), pairs=pairs)
        return uncompiled(self._in_input_order)(batch, generator, self.readout.level, head=True)

    def embed(self, batch: Any, *, level: Level | None = None, generator: torch.Generator | None = None) -> Tensor:
        """The representation before the last linear map: (graphs, d), (nodes, d) or (pairs, d), in input order.

        ``level``: ``"graph"`` or ``"node"``, by default the model's own. A model of graphs has scalars of nodes too,
        before they are pooled, and those of a model of nodes can be pooled.
        """
        return self._in_input_order(batch, generator, level or self.readout.level, head=False)

    def _in_input_order(self, batch: Any, generator: torch.Generator | None, level: Level, *, head: bool) -> Tensor:
        """Rows of graphs or nodes; ``head``: after the readout's last linear map, which only its own level has."""
        points = self.read(batch)
        rows = None
        if type(self).encode is _ENCODE:
            rows = native_rows(
                self, points, "node" if level == "edge" else level, generator, recompute=self.checkpointing
            )
        order = points.graph_order if level == "graph" else points.node_order
        # The readout is called on groups, unless it needs what belongs to the whole batch.
        of_batch = isinstance(self.readout, Readout) and bool(
            self.readout.descriptors or self.readout.dropout or self.references or level == "edge"
        )
        if rows is None:
            rows = self._torch_rows(points, generator, level, head=head and not of_batch)
            if not of_batch:
                return rows[order]
        rows = rows[order]
        if level == "edge":
            rows = self.readout.of_pairs(rows, points.pairs)
        elif of_batch and level == self.readout.level:
            rows = self.readout.joined(rows, points.descriptors)
        return self.head(rows, points, generator) if head else rows

    def head(self, rows: Tensor, points: PointBatch, generator: torch.Generator | None = None) -> Tensor:
        """The end of the model: what :meth:`embed` gives for these points → outputs, all in input order."""
        outputs = self.readout.head(rows, generator)
        return outputs if self.references is None else outputs + self.references(points)

    def _torch_rows(self, points: PointBatch, generator: torch.Generator | None, level: Level, *, head: bool) -> Tensor:
        """The same in the order of the batch, on torch."""

        def end(s: Tensor, *padding: Padding) -> Tensor:
            if head:
                rows: Tensor = self.readout(s, *padding)
                return rows
            if level == self.readout.level:
                return self.readout.representation(s, *padding)
            return represented(s, level, self.readout.pooling, *padding)

        if isinstance(self.encoder, BatchEncoder):
            return torch.cat([end(s) for s in self._encoded_together(points.groups, generator)])
        channels = self.settings.dim if self.settings else self.readout.linear.in_features
        groups = points.buckets(channels) if self.takes_padding else points.groups
        paddings = [[] if group.padding is None else [group.padding] for group in groups]
        return torch.cat(
            [end(self.encode(group, generator), *padding) for group, padding in zip(groups, paddings, strict=True)]
        )

    @property
    def takes_padding(self) -> bool:
        """Whether all its parts can be given padded buckets; others get groups of graphs of equal size."""
        pairs = getattr(self.coordinates, "pairs", None)
        parts = [self.scalars, self.coordinates, self.encoder, self.readout, pairs, self.pairs]
        parts += [getattr(part, "distances", None) for part in (pairs, self.pairs)]
        parts += [getattr(self.coordinates, "function", None), *getattr(self.encoder, "layers", [])]
        return all(map(takes_padding, parts))

    def _encoded_together(self, groups: list[PointGroup], generator: torch.Generator | None) -> list[Tensor]:
        structures = [self.coordinates(group, generator) for group in groups]
        encoded: list[Tensor] = self.encoder([self.scalars(group) for group in groups], structures)
        return encoded

    def encode(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """One group → scalars after the last layer, (d, B, n); in padded rows they mean nothing."""
        if isinstance(self.encoder, BatchEncoder):
            return self._encoded_together([group], generator)[0]
        pairs = None if self.pairs is None else self.pairs(group)
        state = PointState(self.scalars(group), self.coordinates(group, generator), group.padding, pairs)
        # Only the encoder is computed again in checkpointing: the noise of the coordinates must be the same both times.
        again = self.checkpointing and torch.is_grad_enabled()
        encoded = [
            checkpoint(self._scalars, *piece, use_reentrant=False) if again else self._scalars(*piece)
            for piece in _pieces(state)
        ]
        return encoded[0] if len(encoded) == 1 else torch.cat(encoded, dim=1)

    def _scalars(self, s: Tensor, v: Tensor, padding: Padding | None, p: Tensor | None = None) -> Tensor:
        state = self.encoder(PointState(s, v, padding, p))
        encoded = getattr(state, "s", None)
        if not isinstance(encoded, Tensor) or encoded.shape != s.shape:
            got = tuple(encoded.shape) if isinstance(encoded, Tensor) else f"a {type(state).__name__}"
            raise SpecError(
                f"the encoder {type(self.encoder).__name__} gave {got}; expected a PointState whose s has the shape "
                f"{tuple(s.shape)} of what it got, such as state._replace(s=…)"
            )
        return encoded

    def inspect(self, graph: Any) -> Inspection:
        """Coordinates, eigenvalue functions and attention maps for one graph (to draw them), and the output.

        Args:
            graph: one graph of any accepted kind, or a point set.
        """
        return inspect(self, self.read([graph]))

    def export(self, path: str | Path, *, nodes: int | tuple[int, int] = (1, 64)) -> Exported:
        """Write the model as a file that runs without pointset, one graph a call (``docs/encoders.md``, Export).

        Args:
            path: ``model.pt2`` for ``torch.export.load``, which takes the matrix of edge weights; or ``model.onnx``,
                which takes eigenpairs.
            nodes: for graphs of exactly so many nodes, or of (at least, at most) so many.

        Raises:
            SpecError: the model cannot be exported, as baselines; the message says why.
            MissingExtraError: onnx or onnxscript is not installed.
        """
        from pointset.encoders.export_files import export

        return export(path, [self], nodes=nodes)

    @property
    def num_parameters(self) -> int:
        """How many numbers its weights have, trainable or frozen: those of a loaded model are frozen."""
        return _count(self)

    def summary(self) -> None:
        """Print a table of the parts, their shapes and parameters, and which path computes them here."""
        print(_summary(self), f"computed by: {path_of(self)}", sep="\n")

    def read(self, batch: Any) -> PointBatch:
        """Whatever :meth:`forward` takes, as points of the model's matrix, type and device."""
        if by_autograd() and not isinstance(batch, PointBatch):
            raise SpecError(
                f"got a {type(batch).__name__} inside torch.func; expected a PointBatch, as graphs are converted "
                "outside of it: points = model.read(graphs), and inside dataclasses.replace(points, pos=positions)"
            )
        points = _as_points(batch, self.matrix, self.rank)
        if points.matrix != self.matrix:
            raise SpecError(
                f"the points come from matrix={points.matrix!r}, but the model was made for {self.matrix!r}; convert "
                f"with pointset.to_points(graph, matrix={self.matrix!r})"
            )
        parameter = next(self.parameters())
        check_autocast(parameter.device)
        return points.to(parameter.dtype).to(parameter.device)


_ENCODE = PointModel.encode  # a model with another one runs on torch, which calls it


def _pieces(state: PointState) -> list[PointState]:
    """The graphs of a group that are computed together."""
    channels, graphs, nodes, rank = state.v.shape
    if graphs == 1 or not (state.p is None or isinstance(state.p, Tensor)):
        return [state]
    bytes_of_one = max(1, channels * nodes * rank * state.v.element_size())
    piece = max(1, min(graphs, _PIECE_BYTES // bytes_of_one))
    if piece == graphs:
        return [state]
    s, v = (torch.split(part, piece, dim=1) for part in (state.s, state.v))
    paddings = [None] * len(s) if state.padding is None else state.padding.split(piece)
    pairs = [None] * len(s) if state.p is None else torch.split(state.p, piece, dim=1)
    return [PointState(*each) for each in zip(s, v, paddings, pairs, strict=True)]


def _as_points(batch: Any, matrix: str, rank: int | None) -> PointBatch:
    if isinstance(batch, PointBatch):
        return batch
    if isinstance(batch, PointSet):
        return collate([batch])
    if hasattr(batch, "to_data_list"):  # a PyG Batch; with the transform ToPoints it carries its points
        points = getattr(batch, "points", None)
        if isinstance(points, list) and all(isinstance(item, PointSet) for item in points):
            check_points_are_current(batch, points)
            return _with_leaves(collate(points), batch)
        return _as_points(batch.to_data_list(), matrix, rank)
    if isinstance(batch, Sequence) and batch and all(isinstance(item, PointSet) for item in batch):
        return collate(batch)
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return collate(to_points_many(batch, matrix=matrix, rank=rank, progress=False))
    raise SpecError(
        f"got a {type(batch).__name__}; expected a PointBatch (pointset.collate), a PyG Batch, or a list of graphs or "
        "point sets"
    )


def _with_leaves(points: PointBatch, batch: Any) -> PointBatch:
    """With the positions and real features of the PyG batch itself where they require gradients, such as forces."""
    back = points.node_order.argsort()

    def leaf(name: Literal["x", "pos"]) -> Tensor | None:
        feature = getattr(batch, name)
        if not (isinstance(feature, Tensor) and feature.requires_grad):
            known: Tensor | None = getattr(points, name)
            return known
        return (feature.unsqueeze(-1) if feature.dim() == 1 else feature)[back.to(feature.device)]

    return replace(points, x=leaf("x"), pos=leaf("pos"))


def _check(settings: Settings) -> None:
    check_whole_numbers(out=settings.out, dim=settings.dim, layers=settings.layers)
    check_whole_numbers(0, descriptors=settings.descriptors)
    check_rank(settings.rank)
    if settings.descriptors and settings.level != "graph":
        raise SpecError("got descriptors for level='node'; expected level='graph', as they belong to whole graphs")
    for name, known in (("level", get_args(Level)), ("pooling", get_args(Pooling))):
        if getattr(settings, name) not in known:
            raise SpecError(f"got {name}={getattr(settings, name)!r}; expected {' or '.join(map(repr, known))}")
    if settings.references and (settings.level != "graph" or not isinstance(settings.node, Categories)):
        raise SpecError(
            f"got references=True for level={settings.level!r} and node={settings.node}; expected outputs for graphs, "
            "and categories of nodes, such as elements"
        )
    if isinstance(settings.dropout, bool) or not 0 <= settings.dropout < 1:
        raise SpecError(f"got dropout={settings.dropout!r}; expected a number from 0 to below 1")
    noise = settings.noise
    if isinstance(noise, bool) or not isinstance(noise, Real) or not 0 <= noise < math.inf:
        raise SpecError(f"got noise={settings.noise!r}; expected a number, at least 0")


def _vector_channels(settings: Settings, repeats: int) -> int:
    """H = d / k."""
    if settings.dim % repeats:
        near = max(repeats, settings.dim // repeats * repeats)
        raise SpecError(
            f"got dim={settings.dim} for {settings.preset}, whose vectors have 1/{repeats} of the channels; expected a "
            f"multiple of {repeats}, such as dim={near}"
        )
    return settings.dim // repeats


def check_autocast(device: torch.device) -> None:
    """Refuse reduced precision on a CPU that only emulates it: there it is slower than float32.

    Measured with ``benchmarks/encoder_speed.py --bf16``.
    """
    if device.type == "cpu" and torch.is_autocast_enabled("cpu") and not has_bfloat16_products():
        raise SpecError(
            "got autocast on a CPU without bfloat16 products (AVX512-BF16 or AMX), where it is slower than float32; "
            "leave autocast out on this machine, or use a GPU"
        )


def has_bfloat16_products() -> bool:
    """Whether this CPU multiplies bfloat16 matrices itself."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def uncompiled(function: Function) -> Function:
    """The function as it is, also inside ``torch.compile``.

    Every batch brings other sizes (B, n, r), and each would be compiled anew: some twenty seconds for about a tenth of
    its time (``benchmarks/encoder_speed.py --compile``). So a compiled model runs as written.
    """
    dynamo = sys.modules.get("torch._dynamo")  # torch.compile has loaded it; otherwise it is not worth seconds
    if dynamo is None:
        return function
    disabled: Function = dynamo.disable(function)
    return disabled


class Inspection(NamedTuple):
    """One graph as a model sees it."""

    output: Tensor  # (1, out) or (n, out)
    eigenvalues: Tensor  # (r,)
    functions: Tensor  # (r, d) the eigenvalue functions f_i(λ)
    coordinates: Tensor  # (n, r, d) the first vectors
    attention: list[Tensor]  # (d, n, n) for each layer, as it weighs the sums; empty where a model has none


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Inside, the model is in evaluation mode and gradients are off."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(was_training)


def has_coordinates(model: nn.Module) -> bool:
    """Whether it begins with coordinates of points: the paper's variants do, message passing does not."""
    return any(isinstance(part, Coordinates) for part in model.modules())


def inspect(model: PointModel, points: PointBatch) -> Inspection:
    """Run the model in evaluation mode on one graph and keep what passes by, with hooks for the time of this call."""
    seen: dict[str, list[Tensor]] = {"coordinates": [], "functions": [], "attention": []}

    def listen(name: str) -> Any:
        return lambda _module, _arguments, output: seen[name].append(output.detach()[:, 0])

    if not has_coordinates(model):
        raise SpecError("the model has no coordinates to look at; expected one of the paper's variants, not a baseline")
    hooks = []
    for part in model.modules():
        if isinstance(part, Coordinates):
            hooks += [
                part.register_forward_hook(listen("coordinates")),
                part.function.register_forward_hook(listen("functions")),
            ]
        if isinstance(part, AttentionMap):
            hooks.append(part.register_forward_hook(listen("attention")))
    try:
        with evaluating(model), torch_path():
            output = model(points)
    finally:
        for hook in hooks:
            hook.remove()
    factor: Any = next((part.sum_factor for part in model.modules() if hasattr(part, "sum_factor")), size_scale)
    scale = factor(seen["coordinates"][0].shape[1])
    return Inspection(
        output=output,
        eigenvalues=points.eigenvalues,
        functions=seen["functions"][0].mT,
        coordinates=seen["coordinates"][0].permute(1, 2, 0),
        attention=[weights * scale for weights in seen["attention"]],
    )


class _Row(NamedTuple):
    """One line of the table of a model's parts."""

    part: str
    module: str  # the name of its class
    shapes: str
    parameters: int


def _count(module: nn.Module | None) -> int:
    """Of all parameters, also frozen ones."""
    return 0 if module is None else sum(parameter.numel() for parameter in module.parameters())


def _summary(model: PointModel) -> str:
    """The parts, what goes in and out, and how many parameters each has; B graphs with n nodes and rank r."""
    d = "d" if model.settings is None else str(model.settings.dim)
    repeats = getattr(model.encoder, "REPEATS", 1)
    h = ("d" if repeats == 1 else "h") if model.settings is None else str(model.settings.dim // repeats)
    function, pairs = (getattr(model.coordinates, name, None) for name in ("function", "pairs"))
    rest = _count(model.coordinates) - _count(function) - _count(pairs)
    parts = [
        ("scalars", model.scalars, f"x → s ({d}, B, n)", _count(model.scalars)),
        ("coordinates.function", function, f"Λ (B, r) → f(Λ) ({h}, B, r)", _count(function)),
        ("coordinates.pairs", pairs, f"edges, distances → e ({h}, B, n, n)", _count(pairs)),
        ("coordinates", model.coordinates, f"U, f(Λ), e → v ({h}, B, n, r)", rest),
    ]
    rows = [_Row(name, type(part).__name__, shapes, count) for name, part, shapes, count in parts if part is not None]
    if model.pairs is not None:
        shapes = getattr(model.pairs, "SHAPES", "edges → p ({h}, B, n, n)").format(h=h)
        rows.append(_Row("pairs", type(model.pairs).__name__, shapes, _count(model.pairs)))
    rows += _encoder_rows(model.encoder, f"s, v → s ({d}, B, n), v ({h}, B, n, r)")
    end = model.readout
    outputs = getattr(getattr(end, "linear", None), "out_features", "out")  # a readout of one's own may have no linear
    result = f"({end.level}s, {outputs})" if end.level != "graph" else f"{end.pooling} → (graphs, {outputs})"
    rows.append(_Row("readout", type(end).__name__, f"s ({d}, B, n) → {result}", _count(end)))
    return _table(rows, _count(model))


def _encoder_rows(encoder: nn.Module, shapes: str) -> list[_Row]:
    """A row for each run of equal layers, and one for what the encoder has besides."""
    name, layers = type(encoder).__name__, getattr(encoder, "layers", None)
    if not isinstance(layers, nn.ModuleList) or not len(layers):
        return [_Row("encoder", name, shapes, _count(encoder))]
    rows: list[_Row] = []
    for size, run in groupby(range(len(layers)), key=lambda at: _count(layers[at])):
        first, *others = run
        last = others[-1] if others else first
        numbers, times = (f"{first}…{last}", f" × {1 + len(others)}") if others else (str(first), "")
        kind = type(layers[first]).__name__ + times
        rows.append(_Row(f"encoder.layers[{numbers}]", kind, shapes, size * (1 + len(others))))
    if rest := _count(encoder) - sum(row.parameters for row in rows):
        rows.append(_Row("encoder", name, "", rest))
    return rows


def _table(rows: list[_Row], total: int) -> str:
    header = ("part", "kind", "shapes", "parameters")
    cells = [header, *((*row[:3], f"{row.parameters:,}") for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    width = max(len(line[3]) for line in cells)
    lines = [
        f"{part:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {number:>{width}}"
        for part, kind, shapes, number in cells
    ]
    lines.insert(1, "─" * len(lines[0]))
    lines += ["─" * len(lines[0]), f"{'total':<{len(lines[0]) - width}}{total:>{width},}"]
    return "\n".join(line.rstrip() for line in lines)
