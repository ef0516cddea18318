"""A model's forward pass as a program for the native kernels: recorded once, planned once, run for every batch.

Layers are called with a :class:`Symbol` in place of a tensor, so each equation is written once and recorded from there.
A symbol stands for rows of channels of one graph (a :class:`Space` says which rows); what is done to it becomes an
:class:`Operation` of the program. :class:`Planner` then decides, for prediction and for the two passes of training, the
order of steps and where in memory each buffer stands: what a backward pass needs and is dear to compute is kept, what
is cheap is computed again, and everything else shares a few places that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from torch import Tensor


class Space(IntEnum):
    """What the rows of a buffer belong to; as in kernels.cpp."""

    GRAPH = 0  # 1 row
    NODES = 1  # n
    VECTORS = 2  # n·r
    PAIRS = 3  # n²
    EIGENVALUES = 4  # r
    EDGES = 5  # m, both directions
    SQUARES = 6  # r²
    SYMMETRIC = 7  # n(n + 1)/2: pairs i ≤ j, where x_ij = x_ji


class Code(IntEnum):
    """What an operation does; as in kernels.cpp, where each is explained."""

    INPUT = 0
    OUTPUT = 1
    LINEAR = 2
    SILU = 3
    ADD = 4
    MULTIPLY = 5
    GATE = 6
    NORM = 7
    BOUND_VECTORS = 8
    NORM_VECTORS = 9
    BOUND_SCALARS = 10
    PAIR_PRODUCTS = 11
    PAIR_OUTER = 12
    PAIR_ADD = 13
    ROW_PRODUCTS = 14
    DIAGONAL = 15
    SUMS = 16
    POOL = 17
    TIMES_GRAPH = 18
    PLUS_GRAPH = 19
    POINTS = 20
    EDGE_SUMS = 21
    EDGE_PAIRS = 22
    SQUARE = 23
    TIMES_SQUARE = 24
    SCALE = 25
    COPY = 26
    POINTS_OF_PAIRS = 27


# Which inputs' values the backward pass of an operation reads; its output's value where -1 is among them.
_READ_BACK: dict[Code, tuple[int, ...]] = {
    Code.LINEAR: (0,),
    Code.SILU: (0,),
    Code.MULTIPLY: (0, 1),
    Code.GATE: (0, 1),
    Code.NORM: (0,),
    Code.BOUND_VECTORS: (0,),
    Code.NORM_VECTORS: (0, -1),
    Code.BOUND_SCALARS: (0,),
    Code.PAIR_PRODUCTS: (0, 1),
    Code.PAIR_OUTER: (0, 1),
    Code.ROW_PRODUCTS: (0, 1),
    Code.SUMS: (0, 1),
    Code.POOL: (0, -1),
    Code.TIMES_GRAPH: (0, 1),
    Code.EDGE_SUMS: (0, 1),
    Code.SQUARE: (0, 1),
    Code.TIMES_SQUARE: (0, 1),
}
# Cheaper to compute again from what is in the cache than to write to memory and read back.
_CHEAP = {
    Code.INPUT, Code.SILU, Code.ADD, Code.MULTIPLY, Code.GATE, Code.NORM, Code.BOUND_VECTORS, Code.NORM_VECTORS,
    Code.BOUND_SCALARS, Code.PAIR_OUTER, Code.PAIR_ADD, Code.DIAGONAL, Code.EDGE_PAIRS, Code.POINTS, Code.SCALE,
    Code.COPY, Code.TIMES_GRAPH, Code.PLUS_GRAPH, Code.POINTS_OF_PAIRS,
}  # fmt: skip
# Operations whose output has other columns than their first input, or reads columns in another order.
_OTHER_COLUMNS = {Code.LINEAR, Code.INPUT, Code.SQUARE}


@dataclass
class Buffer:
    """Rows of channels for each graph."""

    space: Space
    width: int
    cuts: set[int] = field(default_factory=set)  # channels where a new segment begins


class Symbol:
    """Channels ``start`` to ``stop`` of a buffer: what a layer gets in place of a tensor while it is recorded."""

    def __init__(self, program: Program, buffer: int, start: int, stop: int, differentiable: bool):
        self.program, self._buffer, self._start, self._stop = program, buffer, start, stop
        self.differentiable = differentiable  # whether anything that is trained enters it

    @property
    def buffer(self) -> int:
        """Where it stands: its buffer may have become columns of another one."""
        return self.program.place(self._buffer)[0]

    @property
    def start(self) -> int:
        """Its first channel there."""
        return self.program.place(self._buffer)[1] + self._start

    @property
    def stop(self) -> int:
        """The channel after its last."""
        return self.program.place(self._buffer)[1] + self._stop

    @property
    def space(self) -> Space:
        """What its rows belong to."""
        return self.program.buffers[self.buffer].space

    @property
    def width(self) -> int:
        """Number of channels."""
        return self._stop - self._start

    def __add__(self, other: Any) -> Symbol:
        if not isinstance(other, Symbol):
            return NotImplemented
        if other.space == self.space:
            return self.program.record(Code.ADD, [self, other], self.space, self.width, number=1.0)
        flag = int(other.space is Space.EIGENVALUES)  # a row for each coordinate of the vectors
        return self.program.record(Code.PLUS_GRAPH, [self, other], self.space, self.width, flag=flag)

    def __mul__(self, other: Any) -> Symbol:
        if isinstance(other, (int, float)):
            return self.program.record(Code.SCALE, [self], self.space, self.width, number=float(other), flag=1)
        if not isinstance(other, Symbol):
            return NotImplemented
        if self.space is Space.GRAPH and other.space is not Space.GRAPH:
            return other * self
        code = Code.MULTIPLY if other.space == self.space else Code.TIMES_GRAPH
        return self.program.record(code, [self, other], self.space, self.width)

    __rmul__ = __mul__

    def chunk(self, parts: int) -> list[Symbol]:
        """Equal parts of the channels, as views."""
        size = self.width // parts
        starts = [self.start + part * size for part in range(parts)]
        self.program.buffers[self.buffer].cuts.update(starts)
        return [Symbol(self.program, self.buffer, start, start + size, self.differentiable) for start in starts]

    def linear(self, weight: Tensor | Callable[[], Tensor], bias: Tensor | None = None) -> Symbol:
        """W x (+ b) on every row."""
        return self.program.linear(self, weight, bias)

    def norm(self, scale: Tensor | None = None, shift: Tensor | None = None) -> Symbol:
        """LayerNorm over the channels."""
        numbers = {"weight": self.program.parameter(scale), "bias": self.program.parameter(shift)}
        return self.program.record(Code.NORM, [self], self.space, self.width, **numbers)

    def unary(self, code: Code, *, number: float = 0.0, space: Space | None = None, flag: int = 0) -> Symbol:
        """The result of an operation on this symbol alone, with as many channels."""
        return self.program.record(code, [self], self.space if space is None else space, self.width, number, flag)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: tuple[Any, ...] = (), options: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(function, "__name__", str(function))
        if name == "silu":
            return arguments[0].unary(Code.SILU)
        if name == "cat" and not options and len(arguments) == 1:
            return arguments[0][0].program.stacked(list(arguments[0]))
        raise NotRecorded(f"torch.{name}")


class NotRecorded(Exception):  # noqa: N818 – no user sees it: the torch path runs instead
    """A model does something that the kernels do not know; its text says what."""


class Operation(NamedTuple):
    """A line of a program."""

    code: Code
    inputs: list[Symbol | None]
    output: Symbol
    weight: int = -1  # parameters by number
    bias: int = -1
    number: float = 0.0
    flag: int = 0

    @property
    def read_back(self) -> list[Symbol]:
        """Values that its backward pass reads."""
        if self.code is Code.POOL and self.flag != 2:  # only the largest row needs to be found again
            return []
        found = [self.output if at < 0 else self.inputs[at] for at in _READ_BACK.get(self.code, ())]
        return [symbol for symbol in found if symbol is not None]


class Program:
    """What a model does to one graph."""

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.operations: list[Operation] = []
        self.inputs: list[Callable[[Any], Tensor]] = []  # each: batch → (rows of all graphs, width)
        self.parameters: list[Callable[[], Tensor]] = []
        self._numbers: dict[int, int] = {}  # of parameters, by id
        self._moved: dict[int, tuple[int, int]] = {}  # buffers that became columns of another one
        self._outputs: list[Symbol] = []

    def place(self, buffer: int) -> tuple[int, int]:
        """The buffer that holds this one now, and the channel at which it begins there."""
        start = 0
        while buffer in self._moved:
            buffer, further = self._moved[buffer]
            start += further
        return buffer, start

    def symbol(self, space: Space, width: int, differentiable: bool) -> Symbol:
        """A new buffer, all of it."""
        self.buffers.append(Buffer(space, width))
        return Symbol(self, len(self.buffers) - 1, 0, width, differentiable)

    def record(
        self,
        code: Code,
        inputs: Sequence[Symbol | None],
        space: Space,
        width: int,
        number: float = 0.0,
        flag: int = 0,
        *,
        weight: int = -1,
        bias: int = -1,
    ) -> Symbol:
        """The result of an operation."""
        trained = weight >= 0 or any(symbol is not None and symbol.differentiable for symbol in inputs)
        output = self.symbol(space, width, trained)
        self.operations.append(Operation(code, list(inputs), output, weight, bias, number, flag))
        return output

    def input(self, space: Space, width: int, source: Callable[[Any], Tensor], *, differentiable: bool) -> Symbol:
        """Rows that come from a tensor made for each batch."""
        output = self.symbol(space, width, differentiable)
        self.operations.append(Operation(Code.INPUT, [], output, flag=len(self.inputs)))
        self.inputs.append(source)
        return output

    def ones(self) -> Symbol:
        """A one for each graph: a linear map of it is a row that is the same for all graphs."""

        def source(flat: Any) -> Tensor:
            ones: Tensor = flat.eigenvalues.new_ones(len(flat.graphs.ranks), 1)
            return ones

        return self.input(Space.GRAPH, 1, source, differentiable=False)

    def output(self, symbol: Symbol) -> None:
        """Rows that go to a tensor."""
        self.operations.append(Operation(Code.OUTPUT, [symbol], symbol, flag=len(self._outputs)))
        self._outputs.append(symbol)

    @property
    def outputs(self) -> list[Symbol]:
        """What :meth:`output` was called with."""
        return self._outputs

    def parameter(self, value: Tensor | Callable[[], Tensor] | None) -> int:
        """The number of a parameter, or of a tensor computed from parameters for each batch; -1 for None."""
        if value is None:
            return -1
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.parameters)
            self.parameters.append((lambda: value) if isinstance(value, Tensor) else value)
        return self._numbers[id(value)]

    def linear(
        self,
        x: Symbol,
        weight: Tensor | Callable[[], Tensor],
        bias: Tensor | None = None,
        *,
        outputs: int | None = None,
    ) -> Symbol:
        """W x (+ b) on every row."""
        width = int(weight.shape[0]) if isinstance(weight, Tensor) else outputs
        if width is None:
            raise ValueError("a computed weight needs its number of outputs")
        numbers = {"weight": self.parameter(weight), "bias": self.parameter(bias)}
        return self.record(Code.LINEAR, [x], x.space, width, **numbers)

    def stacked(self, parts: list[Symbol]) -> Symbol:
        """Channels of the parts one after the other. A part that is a whole buffer is computed there right away."""
        whole = self.symbol(parts[0].space, sum(part.width for part in parts), any(p.differentiable for p in parts))
        start = 0
        for part in parts:
            cuts = self.buffers[whole.buffer].cuts
            cuts.add(start)
            own = self.buffers[part.buffer]
            if part.width == own.width and part.differentiable == whole.differentiable and not self._is_read(part):
                cuts |= {start + cut for cut in own.cuts}
                self._moved[part.buffer] = (whole.buffer, start)
            else:
                view = Symbol(self, whole.buffer, start, start + part.width, part.differentiable)
                self.operations.append(Operation(Code.COPY, [part], view))
            start += part.width
        return whole

    def _is_read(self, symbol: Symbol) -> bool:
        """Whether an operation has read from its buffer."""
        read = (s for operation in self.operations for s in operation.inputs if s is not None)
        return any(s.buffer == symbol.buffer for s in read)

    def segments(self, buffer: int) -> list[tuple[int, int]]:
        """(start, stop) of the runs of channels that are padded to whole vectors."""
        channels = self.buffers[buffer]
        edges = sorted({0, channels.width} | channels.cuts)
        return list(pairwise(edges))

    def align(self) -> None:
        """Cut buffers that meet channel by channel at the same channels."""
        changed = True
        while changed:
            changed = False
            for operation in self.operations:
                if operation.code in _OTHER_COLUMNS:
                    continue
                symbols = [symbol for symbol in (*operation.inputs, operation.output) if symbol is not None]
                symbols = [symbol for symbol in symbols if symbol.space is not Space.SQUARES]
                period = symbols[0].width  # of the attention, whose channels may be used several times
                cuts = {(cut - s.start) % period for s in symbols for cut in self._cuts_inside(s)}
                for symbol in symbols:
                    turns = range(0, symbol.width, period)
                    wanted = {symbol.start + turn + cut for turn in turns for cut in cuts | {0}}
                    have = self.buffers[symbol.buffer].cuts
                    if not wanted <= have | {0}:
                        have |= wanted
                        changed = True

    def _cuts_inside(self, symbol: Symbol) -> Iterator[int]:
        return (cut for cut in self.buffers[symbol.buffer].cuts if symbol.start <= cut < symbol.stop)


class Step(NamedTuple):
    """What a plan does next."""

    kind: int  # 0 forward, 1 backward, 2 set a gradient to zero
    operation: int = -1
    accumulate: int = 0  # bits of inputs whose gradient is added to; shifted by 4: bits of those that are wanted
    zeroed: Symbol | None = None


class Place(NamedTuple):
    """Where a buffer of a graph stands: offset Σ coefficient · rows of each space."""

    arena: int  # 0 memory of the graph, 1 of the thread
    coefficients: tuple[int, ...]


_NOWHERE = Place(1, (0,) * len(Space))


class _Slots:
    """Places that buffers share whose lives do not overlap."""

    def __init__(self, arena: int):
        self.arena = arena
        self.spaces: list[Space] = []
        self.widths: list[int] = []
        self._free: list[int] = []

    def take(self, space: Space, width: int) -> int:
        """A place, free from now on."""
        fitting = [slot for slot in self._free if self.spaces[slot] == space]
        if fitting:
            best = min(fitting, key=lambda slot: (self.widths[slot] < width, abs(self.widths[slot] - width)))
            self._free.remove(best)
            self.widths[best] = max(self.widths[best], width)
            return best
        self.spaces.append(space)
        self.widths.append(width)
        return len(self.spaces) - 1

    def give_back(self, slot: int) -> None:
        """Free again."""
        self._free.append(slot)

    def places(self) -> list[Place]:
        """Of each slot."""
        found, total = [], [0] * len(Space)
        for space, width in zip(self.spaces, self.widths, strict=True):
            found.append(Place(self.arena, tuple(total)))
            total[space] += width
        return found

    @property
    def total(self) -> list[int]:
        """Coefficients of all of it."""
        total = [0] * len(Space)
        for space, width in zip(self.spaces, self.widths, strict=True):
            total[space] += width
        return total


@dataclass
class Plan:
    """Steps, and the place of every buffer's values and gradients."""

    steps: list[Step]
    values: list[Place]
    gradients: list[Place]
    kept: list[int]
    scratch: list[int]


class Planner:
    """The three plans of a program: prediction, and the forward and backward pass of training."""

    def __init__(self, program: Program, lanes: int):
        program.align()
        self.program, self.lanes = program, lanes
        self.strides = [self.padded(number, 0, buffer.width) for number, buffer in enumerate(program.buffers)]
        self.writers: dict[int, list[int]] = {}
        for number, operation in enumerate(program.operations):
            if operation.code is not Code.OUTPUT:
                self.writers.setdefault(operation.output.buffer, []).append(number)

    def padded(self, buffer: int, start: int, stop: int) -> int:
        """Columns of channels ``start`` to ``stop``, with padding."""
        inside = ((a, b) for a, b in self.program.segments(buffer) if start <= a and b <= stop)
        return sum(-(-(b - a) // self.lanes) * self.lanes for a, b in inside)

    @cached_property
    def kept(self) -> set[int]:
        """Buffers whose values the forward pass of training leaves behind."""
        kept: set[int] = set()
        waiting = [symbol.buffer for op in self.program.operations if _trains(op) for symbol in op.read_back]
        seen: set[int] = set()
        while waiting:
            buffer = waiting.pop()
            if buffer in seen:
                continue
            seen.add(buffer)
            if self._is_cheap(buffer):
                for number in self.writers[buffer]:
                    waiting += [s.buffer for s in self.program.operations[number].inputs if s is not None]
            else:
                kept.add(buffer)
        return kept

    def _is_cheap(self, buffer: int) -> bool:
        return all(self.program.operations[number].code in _CHEAP for number in self.writers[buffer])

    def prediction(self) -> Plan:
        """All operations in order, nothing kept."""
        return self._forward(set())

    def training_forward(self) -> Plan:
        """All operations in order; what the backward pass needs is kept."""
        return self._forward(self.kept)

    def _forward(self, kept: set[int]) -> Plan:
        steps = [Step(0, number) for number in range(len(self.program.operations))]
        return self._placed(steps, kept)

    def training_backward(self, *, recompute: bool = False) -> Plan:
        """The gradients, from the last operation to the first; cheap values are computed again where they are read.

        ``recompute``: all values are, at the cost of a forward pass, and nothing needs to be kept.
        """
        steps: list[Step] = []
        kept = set() if recompute else self.kept
        available = set(kept)
        if recompute:
            steps += [
                Step(0, number) for number, op in enumerate(self.program.operations) if op.code is not Code.OUTPUT
            ]
            available = set(range(len(self.program.buffers)))
        touched: set[tuple[int, int]] = set()  # segments of buffers whose gradient has been written

        def again(buffer: int) -> None:
            if buffer in available:
                return
            available.add(buffer)
            for number in self.writers[buffer]:
                for symbol in self.program.operations[number].inputs:
                    if symbol is not None:
                        again(symbol.buffer)
                steps.append(Step(0, number))

        for number in reversed(range(len(self.program.operations))):
            operation = self.program.operations[number]
            if not _trains(operation):
                continue
            if operation.code is not Code.OUTPUT:
                parts = self._segments(operation.output)
                if not touched & set(parts):
                    continue
                steps += [self._zero(part) for part in parts if part not in touched]
            for symbol in operation.read_back:
                again(symbol.buffer)
            steps += self._backward_steps(number, touched)
        return self._placed(steps, kept)

    def _backward_steps(self, number: int, touched: set[tuple[int, int]]) -> Iterator[Step]:
        bits = 0
        for position, symbol in enumerate(self.program.operations[number].inputs):
            if symbol is None or not symbol.differentiable:
                continue
            parts = self._segments(symbol)
            if any(part in touched for part in parts):
                yield from (self._zero(part) for part in parts if part not in touched)
                bits |= 1 << position
            touched.update(parts)
            bits |= 16 << position
        yield Step(1, number, bits)

    def _segments(self, symbol: Symbol) -> list[tuple[int, int]]:
        segments = self.program.segments(symbol.buffer)
        return [(symbol.buffer, start) for start, stop in segments if symbol.start <= start and stop <= symbol.stop]

    def _zero(self, part: tuple[int, int]) -> Step:
        buffer, start = part
        stop = next(b for a, b in self.program.segments(buffer) if a == start)
        return Step(2, zeroed=Symbol(self.program, buffer, start, stop, True))

    def _placed(self, steps: list[Step], kept: set[int]) -> Plan:
        """Places for all values and gradients: from the step that writes first to the one that reads last."""
        last: dict[tuple[str, int], int] = {}
        for at, step in enumerate(steps):
            for key in self._touches(step):
                last[key] = at
        own, shared = _Slots(0), _Slots(1)
        slots: dict[tuple[str, int], tuple[_Slots, int]] = {}
        for buffer in sorted(kept):
            slots["value", buffer] = (own, own.take(self.program.buffers[buffer].space, self.strides[buffer]))
        for at, step in enumerate(steps):
            keys = list(dict.fromkeys(self._touches(step)))
            for key in keys:
                if key not in slots:
                    slots[key] = (shared, shared.take(self.program.buffers[key[1]].space, self.strides[key[1]]))
            for key in keys:
                if last[key] == at and slots[key][0] is shared:
                    shared.give_back(slots[key][1])
        places = {id(slot): slot.places() for slot in (own, shared)}

        def place(kind: str, buffer: int) -> Place:
            found = slots.get((kind, buffer))
            return _NOWHERE if found is None else places[id(found[0])][found[1]]

        buffers = range(len(self.program.buffers))
        values, gradients = ([place(kind, buffer) for buffer in buffers] for kind in ("value", "gradient"))
        return Plan(steps, values, gradients, own.total, shared.total)

    def _touches(self, step: Step) -> Iterable[tuple[str, int]]:
        """Values and gradients that a step reads or writes."""
        if step.zeroed is not None:
            yield "gradient", step.zeroed.buffer
            return
        operation = self.program.operations[step.operation]
        inputs = [symbol for symbol in operation.inputs if symbol is not None]
        if step.kind == 0:
            yield from (("value", symbol.buffer) for symbol in (*inputs, operation.output))
            return
        yield from (("value", symbol.buffer) for symbol in operation.read_back)
        yield "gradient", operation.output.buffer
        yield from (("gradient", symbol.buffer) for symbol in inputs if symbol.differentiable)


def _trains(operation: Operation) -> bool:
    """Whether gradients pass through it."""
    return operation.output.differentiable
