"""Which path computes a model, and the native one: its forward pass is recorded once and run graph by graph.

The native path takes over on a processor, in float32, wherever the kernels of :mod:`pointset.native` could be built and
know all that a model does; everything else runs on torch. Both compute the same function, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointBatch, PointGroup
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.layers import POOLED_NODES, BatchEncoder, Level, PointState, Pooling, Readout
from pointset.encoders.products import by_autograd
from pointset.native import build
from pointset.native.execute import Executable, Graphs, run
from pointset.native.program import Code, Program, Space, Symbol

_torch_only: ContextVar[bool] = ContextVar("torch_only", default=False)
_POOLING: dict[Pooling, int] = {"sum": 0, "mean": 1, "max": 2, "scaled_sum": 0}


@contextmanager
def torch_path() -> Iterator[None]:
    """Inside, models run on torch: gradients of gradients work, and hooks see every part.

    Example:
        >>> import networkx as nx, pointset
        >>> model = pointset.PointModel.from_preset("pst", dim=8, layers=1)
        >>> with pointset.torch_path():
        ...     output = model([nx.path_graph(4)])
    """
    token = _torch_only.set(True)
    try:
        yield
    finally:
        _torch_only.reset(token)


class FlatPoints:
    """A batch as the kernels see it: all graphs one after the other, in ascending order of (n, r)."""

    def __init__(self, points: PointBatch, eigenvalues: Tensor, eigenvectors: Tensor):
        self.points, self.eigenvalues = points, eigenvalues
        graphs = [run.graphs for run in points.runs]
        num_nodes, ranks = (
            torch.from_numpy(np.repeat(np.array(sizes, dtype=np.int64), graphs))
            for sizes in ([run.nodes for run in points.runs], [run.rank for run in points.runs])
        )
        nothing = torch.empty(3, 0, dtype=torch.long)
        graph, sources, targets = nothing if points.edges is None else points.edges
        counts = torch.bincount(graph, minlength=len(num_nodes))
        self.graphs = Graphs(num_nodes, ranks, counts, eigenvectors, sources, targets)

    @cached_property
    def rows(self) -> PointGroup:
        """All nodes and edges as if of one graph: for whatever is computed row by row."""
        points, nodes = self.points, len(self.points.node_order)

        def whole(feature: Tensor | None) -> Tensor | None:
            return None if feature is None else feature.unsqueeze(0)

        none = self.eigenvalues.new_empty(1, 0)
        vectors = self.eigenvalues.new_empty(1, nodes, 0)
        return PointGroup(
            points.index[:1],
            none,
            vectors,
            x=whole(points.x),
            edges=points.edges,
            edge_attr=points.edge_attr,
            edge_weight=points.edge_weight,
            pos=whole(points.pos),
        )


class _Recorded(NamedTuple):
    """A model's program, or why there is none."""

    parts: tuple[int, ...]  # identities of what it was recorded from
    executable: Executable | None
    reason: str


_recorded: WeakKeyDictionary[nn.Module, dict[tuple[bool, Level], _Recorded]] = WeakKeyDictionary()


def native_rows(
    model: Any, points: PointBatch, level: Level, generator: torch.Generator | None, *, recompute: bool
) -> Tensor | None:
    """Scalars after the last layer, pooled for level "graph": (G, d) or (N, d) in the batch's order; None: use torch.

    ``model`` is a :class:`pointset.PointModel`, ``recompute`` its checkpointing.
    """
    if _torch_only.get() or _outside(model, points) is not None:
        return None
    recorded = _program_of(model, level)
    if recorded.executable is None:
        return None
    flat = FlatPoints(points, *model.coordinates.eigenpairs(points.eigenvalues, points.eigenvectors, generator))
    return run(recorded.executable, flat.graphs, flat, recompute=recompute)[0]


def path_of(model: Any) -> str:
    """Which path a model runs on here, in words: for its summary."""
    status = build.status()
    if not status.active:
        return status.text
    parameter = next(model.parameters())
    if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
        return f"torch (the kernels compute in float32 on a CPU; the model is {parameter.dtype} on {parameter.device})"
    program = _program(model, model.readout.level)
    return status.text if isinstance(program, Program) else f"torch ({program})"


def _outside(model: Any, points: PointBatch) -> str | None:
    """Why this call is not for the kernels."""
    vectors = points.eigenvectors
    if vectors.device.type != "cpu" or vectors.dtype != torch.float32:
        return "another device or type"
    if torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling():
        return "autocast or torch.compile"
    if by_autograd():
        return "torch.func or torch.export"
    if vectors.requires_grad or points.eigenvalues.requires_grad:
        return "gradients of eigenpairs"
    features = (points.pos, points.x, points.edge_attr)
    by_features = torch.is_grad_enabled() and any(feature is not None and feature.requires_grad for feature in features)
    if by_features and any(parameter.requires_grad for parameter in model.parameters()):
        # A loss on forces is near, and the kernels have no gradients of gradients. A frozen model's forces are theirs.
        return "gradients of both features and weights"
    return None


def _program_of(model: nn.Module, level: Level) -> _Recorded:
    """The program of a model as it is now; recorded anew when a part or a parameter has been replaced."""
    parts: list[int] = []
    waiting: list[nn.Module | None] = [model]  # not model.modules(), which takes a tenth of a small step
    while waiting:
        module = waiting.pop()
        if module is None:
            continue
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
            return _Recorded((), None, "hooks")
        parts.append(id(module))
        parts += map(id, module._parameters.values())
        waiting += module._modules.values()
    programs = _recorded.setdefault(model, {})
    found = programs.get((model.training, level))
    if found is None or found.parts != tuple(parts):
        found = programs[model.training, level] = _record(model, level, tuple(parts))
    return found


def _record(model: Any, level: Level, parts: tuple[int, ...]) -> _Recorded:
    program = _program(model, level)
    if not isinstance(program, Program):
        return _Recorded(parts, None, program)
    kernels = build.library()
    if kernels is None:
        return _Recorded(parts, None, build.status().text)
    return _Recorded(parts, Executable(program, kernels), "")


def _program(model: Any, level: Level) -> Program | str:
    """What a model does to one graph, or why the kernels cannot do it."""
    if (reason := _not_recordable(model)) is not None:
        return reason
    try:
        program = Program()
        s, v = (_tensor(part.record(program)) for part in (model.scalars, model.coordinates))
        pairs = None if model.pairs is None else _tensor(model.pairs.record(program))
        state = model.encoder(PointState(s, v, p=pairs))
        end = cast(Symbol, state.s)
        if level == "graph":
            pooling = model.readout.pooling
            end = end.unary(Code.POOL, space=Space.GRAPH, flag=_POOLING[pooling])
            end = end * (1 / POOLED_NODES) if pooling == "scaled_sum" else end
        program.output(end)
    except Exception as problem:
        # A layer of a user's own may do with a symbol whatever it does with tensors: torch then computes it, and what
        # is really wrong is said there.
        return f"the kernels do not know a part of the model: {problem}"
    return program


def _tensor(symbol: Symbol) -> Tensor:
    return cast(Tensor, symbol)


def _not_recordable(model: Any) -> str | None:
    """Why a model has no program, as far as its parts tell."""
    if isinstance(model.encoder, BatchEncoder) or not isinstance(model.coordinates, Coordinates):
        return "a baseline"
    pairs = model.coordinates.pairs
    parts = [model.scalars, model.coordinates, model.coordinates.function]
    weighing = [pairs, model.pairs]
    weighing += [getattr(part, "distances", None) for part in weighing]
    parts += [part for part in weighing if part is not None]
    own = [type(part).__name__ for part in parts if not _forward_is_recorded(part)]
    end = type(model.readout)
    if end.representation is not Readout.representation or end.forward is not Readout.forward:
        own.append(end.__name__)
    return f"the kernels do not know {', '.join(own)}" if own else None


def _forward_is_recorded(part: nn.Module) -> bool:
    """Whether ``record`` stands in the class that defines ``forward``: a subclass may have changed the latter alone."""
    classes = type(part).__mro__
    forward = next(c for c in classes if "forward" in vars(c))
    return "record" in vars(forward) or "record_sums" in vars(forward)
