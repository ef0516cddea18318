"""Running a program on a batch: ctypes on one side, an ``autograd.Function`` on the other."""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from pointset.native.build import usable_threads
from pointset.native.program import Code, Operation, Place, Plan, Planner, Program, Space, Symbol

SHARED_NODES = 64  # a single graph from this size on is computed by all threads together
_INT, _LONG, _FLOAT, _POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class _Ref(ctypes.Structure):
    _fields_ = [(name, _INT) for name in ("buffer", "column", "padded", "width", "first_segment", "segments", "mask")]


class _Segment(ctypes.Structure):
    _fields_ = [("column", _INT), ("width", _INT)]


class _Op(ctypes.Structure):
    _fields_ = [
        ("code", _INT),
        ("inputs", _INT * 4),
        *((name, _INT) for name in ("output", "weight", "bias", "flag")),
        ("number", _FLOAT),
        *((name, _LONG) for name in ("packed", "packed_back", "gradient")),
    ]


class _Step(ctypes.Structure):
    _fields_ = [("op", _INT), ("kind", _INT), ("accumulate", _INT)]


class _Place(ctypes.Structure):
    _fields_ = [("arena", _INT), ("coefficient", _LONG * len(Space))]


class _Buffer(ctypes.Structure):
    _fields_ = [("space", _INT), ("stride", _INT)]


class _Program(ctypes.Structure):
    _fields_ = [
        ("ops", _POINTER),
        ("op_count", _INT),
        *((name, _POINTER) for name in ("refs", "segments", "masks", "buffers")),
        ("buffer_count", _INT),
        ("packed_floats", _LONG),
        ("gradient_floats", _LONG),
    ]


class _Plan(ctypes.Structure):
    _fields_ = [
        ("steps", _POINTER),
        ("step_count", _INT),
        ("values", _POINTER),
        ("gradients", _POINTER),
        ("kept", _LONG * len(Space)),
        ("scratch", _LONG * len(Space)),
    ]


_ARRAYS = (
    "nodes", "ranks", "edge_counts", "eigenvectors", "sources", "targets", "inputs", "input_gradients", "outputs",
    "output_gradients", "parameters", "parameter_gradients", "kept", "scratch", "packed", "gradient_sums",
)  # fmt: skip


class _Batch(ctypes.Structure):
    _fields_ = [("graphs", _INT), *((name, _POINTER) for name in _ARRAYS), ("threads", _INT), ("backward", _INT)]


class Graphs(NamedTuple):
    """What a program needs of a batch besides its inputs."""

    num_nodes: Tensor  # (G,)
    ranks: Tensor  # (G,)
    edge_counts: Tensor  # (G,)
    eigenvectors: Tensor  # (Σ n·r,) float32, an (n, r) block of each graph
    sources: Tensor  # (Σ m,) within the graph; both directions
    targets: Tensor  # (Σ m,)


class _Memory:
    """Blocks of floats that are used again from step to step: fresh pages would cost a tenth of a step."""

    KEPT_BLOCKS = 4

    def __init__(self) -> None:
        self._free: list[NDArray[np.float32]] = []
        self._lock = threading.Lock()

    def take(self, floats: int) -> NDArray[np.float32]:
        """A block of at least so many, with whatever it held before."""
        with self._lock:
            fitting = [block for block in self._free if floats <= len(block)]
            if fitting:
                return self._without(min(fitting, key=len))
            if self._free:  # too small, all of them: the largest makes room
                self._without(max(self._free, key=len))
        return self._fresh(floats + floats // 8)

    def give_back(self, block: NDArray[np.float32]) -> None:
        """For the next one who asks."""
        with self._lock:
            self._free.append(block)
            if len(self._free) > self.KEPT_BLOCKS:
                self._without(min(self._free, key=len))

    def _without(self, chosen: NDArray[np.float32]) -> NDArray[np.float32]:
        self._free = [block for block in self._free if block is not chosen]  # remove() would compare their numbers
        return chosen

    @staticmethod
    def _fresh(floats: int) -> NDArray[np.float32]:
        size = max(4 * floats, mmap.PAGESIZE)
        area = mmap.mmap(-1, size)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            area.madvise(mmap.MADV_HUGEPAGE)
        return np.frombuffer(area, dtype=np.float32)


_MEMORY = _Memory()


class Executable:
    """A program with its plans, in the form that the library reads."""

    def __init__(self, program: Program, library: ctypes.CDLL):
        self.program, self._library = program, library
        self._planner = Planner(program, library.pointset_lanes())
        self._refs: list[_Ref] = []
        self._segments: list[_Segment] = []
        self._masks: list[float] = []
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._packed = self._gradient_floats = 0
        self._ops = _array(_Op, [self._op(operation) for operation in program.operations])
        self._buffers = _array(
            _Buffer,
            [
                _Buffer(buffer.space, stride)
                for buffer, stride in zip(program.buffers, self._planner.strides, strict=True)
            ],
        )
        self.prediction = self._planned(self._planner.prediction())
        self.forward = self._planned(self._planner.training_forward())
        self.backward = self._planned(self._planner.training_backward())
        self.recomputing = self._planned(self._planner.training_backward(recompute=True))
        self._keep = (_array(_Ref, self._refs), _array(_Segment, self._segments), _array(_FLOAT, self._masks))
        refs, segments, masks = (ctypes.addressof(array) for array in self._keep)
        self.structure = _Program(
            ctypes.addressof(self._ops), len(self._ops), refs, segments, masks, ctypes.addressof(self._buffers),
            len(self._buffers), self._packed, self._gradient_floats,
        )  # fmt: skip

    def _ref(self, symbol: Symbol | None) -> int:
        if symbol is None:
            return -1
        key = (symbol.buffer, symbol.start, symbol.stop)
        if key not in self._numbers:
            padded = self._planner.padded
            column, first, mask = padded(symbol.buffer, 0, symbol.start), len(self._segments), len(self._masks)
            for start, stop in self.program.segments(symbol.buffer):
                if symbol.start <= start and stop <= symbol.stop:
                    self._segments.append(_Segment(padded(symbol.buffer, symbol.start, start), stop - start))
                    room = padded(symbol.buffer, start, stop)
                    self._masks += [1.0] * (stop - start) + [0.0] * (room - stop + start)
            count = len(self._segments) - first
            width = padded(symbol.buffer, symbol.start, symbol.stop)
            self._refs.append(_Ref(symbol.buffer, column, width, symbol.width, first, count, mask))
            self._numbers[key] = len(self._refs) - 1
        return self._numbers[key]

    def _op(self, operation: Operation) -> _Op:
        inputs = [self._ref(symbol) for symbol in operation.inputs]
        result = _Op(operation.code, (_INT * 4)(*inputs, *[-1] * (4 - len(inputs))), self._ref(operation.output))
        result.weight, result.bias, result.flag = operation.weight, operation.bias, operation.flag
        result.number = operation.number
        if operation.weight >= 0 or operation.bias >= 0:
            outputs = self._refs[result.output].padded
            result.packed, result.gradient = self._packed, self._gradient_floats
            if operation.code is Code.NORM:
                self._packed += 2 * outputs
                self._gradient_floats += 2 * outputs
            else:
                source = self._refs[inputs[0]]
                self._packed += outputs + source.width * outputs
                self._gradient_floats += outputs + source.width * outputs
                result.packed_back = self._packed
                self._packed += operation.output.width * source.padded
        return result

    def _planned(self, plan: Plan) -> _Plan:
        steps = [
            _Step(step.operation if step.zeroed is None else self._ref(step.zeroed), step.kind, step.accumulate)
            for step in plan.steps
        ]
        arrays = (_array(_Step, steps), _places(plan.values), _places(plan.gradients))
        structure = _Plan()
        structure.arrays = arrays  # kept alive
        structure.steps, structure.values, structure.gradients = (ctypes.addressof(array) for array in arrays)
        structure.step_count = len(steps)
        structure.kept[:], structure.scratch[:] = plan.kept, plan.scratch
        return structure

    def run(self, plan: _Plan, call: Call) -> NDArray[np.float32] | None:
        """Run a plan; returns the memory that a forward pass of training keeps."""
        batch, threads = call.batch, call.batch.threads
        kept_floats, scratch_floats = _LONG(), _LONG()
        self._library.pointset_memory(
            ctypes.byref(plan), ctypes.byref(batch), ctypes.byref(kept_floats), ctypes.byref(scratch_floats)
        )
        kept = call.kept
        if kept is None and kept_floats.value:
            kept = _MEMORY.take(kept_floats.value)
        gradients = threads * self._gradient_floats if batch.backward else 0
        scratch = _MEMORY.take(threads * scratch_floats.value + self._packed + gradients + 64)
        # Whole cache lines: rows that straddle two of them cost a third of the speed.
        start = -(-scratch.ctypes.data // 64) * 64
        batch.scratch = start
        batch.packed = start + 4 * threads * scratch_floats.value
        batch.gradient_sums = batch.packed + 4 * self._packed
        batch.kept = 0 if kept is None else kept.ctypes.data
        self._library.pointset_run(ctypes.byref(self.structure), ctypes.byref(plan), ctypes.byref(batch))
        _MEMORY.give_back(scratch)
        return kept


class Call(NamedTuple):
    """A batch in the library's form, and what must live as long."""

    batch: _Batch
    alive: tuple[Any, ...]
    kept: NDArray[np.float32] | None = None


def _array(kind: Any, items: Sequence[Any]) -> Any:
    return (kind * max(1, len(items)))(*items)


def _places(places: Sequence[Place]) -> Any:
    return _array(_Place, [_Place(place.arena, (_LONG * len(Space))(*place.coefficients)) for place in places])


def _pointers(tensors: Sequence[Tensor | None]) -> Any:
    return (_POINTER * max(1, len(tensors)))(*(None if tensor is None else tensor.data_ptr() for tensor in tensors))


def _batch_of(graphs: Graphs, threads: int) -> tuple[_Batch, list[Any]]:
    parts = [graphs.num_nodes, graphs.ranks, graphs.edge_counts, graphs.eigenvectors, graphs.sources, graphs.targets]
    alive: list[Any] = [part.detach().contiguous() for part in parts]
    structure = _Batch(len(graphs.num_nodes), *(part.data_ptr() for part in alive))
    structure.threads = threads
    return structure, alive


class _Native(Function):
    """One call of a program: inputs and parameters → outputs."""

    @staticmethod
    def forward(ctx: Any, work: Work, *tensors: Tensor) -> tuple[Tensor, ...]:
        ready = [tensor.detach().contiguous() for tensor in tensors]
        outputs = work.empty_outputs(ready)
        call = work.call(ready, outputs=outputs)
        keeps = work.training and not work.recompute
        plan = work.executable.forward if keeps else work.executable.prediction
        kept = work.executable.run(plan, call)
        if work.training:
            ctx.save_for_backward(*tensors)
            ctx.work, ctx.kept = work, kept
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "got a request for gradients of gradients (create_graph=True) of a model that ran on the native "
                "kernels, which do not compute them: run it inside `with pointset.torch_path():`, or set "
                "POINTSET_NATIVE=0 before the start. Where positions require gradients, a model of trainable weights "
                "runs on torch by itself"
            )
        work: Work = ctx.work
        ready = [tensor.detach().contiguous() for tensor in ctx.saved_tensors]
        wanted = ctx.needs_input_grad[1:]
        results = [torch.zeros_like(tensor) if want else None for tensor, want in zip(ready, wanted, strict=True)]
        call = work.call(
            ready, gradients=[gradient.contiguous() for gradient in gradients], results=results, kept=ctx.kept
        )
        # Nothing is kept: with checkpointing, or the second time of a graph that is retained.
        plan = work.executable.recomputing if ctx.kept is None else work.executable.backward
        work.executable.run(plan, call)
        if ctx.kept is not None:
            _MEMORY.give_back(ctx.kept)
            ctx.kept = None
        return (None, *results)


class Work(NamedTuple):
    """A program and the batch it is run on."""

    executable: Executable
    graphs: Graphs
    rows: dict[Space, int]  # of all graphs
    training: bool  # not by ctx.needs_input_grad, which is the same under no_grad
    recompute: bool
    threads: int

    def empty_outputs(self, like: Sequence[Tensor]) -> list[Tensor]:
        """Tensors for the outputs."""
        symbols = self.executable.program.outputs
        return [like[0].new_empty(self.rows[symbol.space], symbol.width) for symbol in symbols]

    def call(
        self,
        tensors: Sequence[Tensor],
        *,
        outputs: Sequence[Tensor] = (),
        gradients: Sequence[Tensor] = (),
        results: Sequence[Tensor | None] = (),
        kept: NDArray[np.float32] | None = None,
    ) -> Call:
        """Everything in the library's form."""
        count = len(self.executable.program.inputs)
        batch, alive = _batch_of(self.graphs, self.threads)
        pointers = {
            "inputs": _pointers(tensors[:count]),
            "parameters": _pointers(tensors[count:]),
            "outputs": _pointers(outputs),
            "output_gradients": _pointers(gradients),
            "input_gradients": _pointers(results[:count]),
            "parameter_gradients": _pointers(results[count:]),
        }
        for name, array in pointers.items():
            setattr(batch, name, ctypes.addressof(array))
        batch.backward = int(bool(results))
        return Call(batch, (alive, pointers, tensors, outputs, gradients, results), kept)


def run(executable: Executable, graphs: Graphs, batch: Any, *, recompute: bool = False) -> list[Tensor]:
    """The outputs of a program for a batch, (rows of all graphs, width) each.

    Args:
        executable: the program.
        graphs: the batch's graphs.
        batch: what the program's inputs are made from.
        recompute: keep nothing for the backward pass; it computes the values again.
    """
    inputs = [source(batch) for source in executable.program.inputs]
    parameters = [parameter() for parameter in executable.program.parameters]
    n, r = graphs.num_nodes, graphs.ranks
    counts = {
        Space.GRAPH: len(n), Space.NODES: int(n.sum()), Space.VECTORS: int((n * r).sum()),
        Space.PAIRS: int((n * n).sum()), Space.EIGENVALUES: int(r.sum()), Space.EDGES: len(graphs.sources),
        Space.SQUARES: int((r * r).sum()), Space.SYMMETRIC: int((n * (n + 1) // 2).sum()),
    }  # fmt: skip
    # One small graph is not worth waking the other threads; more than one or all would rebuild torch's pool of them.
    threads = usable_threads(torch.get_num_threads()) if len(n) > 1 or int(n.max()) >= SHARED_NODES else 1
    training = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (*inputs, *parameters))
    work = Work(executable, graphs, counts, training, recompute, threads)
    results: tuple[Tensor, ...] = _Native.apply(work, *inputs, *parameters)  # type: ignore[no-untyped-call]
    return list(results)
