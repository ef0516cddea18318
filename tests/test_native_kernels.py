"""Every operation of the native kernels against plain torch expressions: values and gradients, graph by graph."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pointset.native.build import SOURCE, library
from pointset.native.execute import Executable, Graphs, run
from pointset.native.program import Code, Program, Space, Symbol

pytestmark = pytest.mark.skipif(library() is None, reason="no native kernels here: no C++ compiler")

SIZES = [(5, 4, 6), (1, 0, 0), (7, 7, 12), (0, 0, 0), (13, 12, 30), (2, 1, 2), (9, 5, 16)]  # n, r, directed edges
WIDTHS = (3, 16, 28)


def rows_of(graphs: Graphs, space: Space) -> list[int]:
    n, r, m = graphs.num_nodes, graphs.ranks, graphs.edge_counts
    counts = {
        Space.GRAPH: torch.ones_like(n),
        Space.NODES: n,
        Space.VECTORS: n * r,
        Space.PAIRS: n * n,
        Space.EIGENVALUES: r,
        Space.EDGES: m,
        Space.SQUARES: r * r,
        Space.SYMMETRIC: n * (n + 1) // 2,
    }
    found: list[int] = counts[space].tolist()
    return found


def make_graphs(seed: int = 0) -> Graphs:
    generator = torch.Generator().manual_seed(seed)
    n, r, m = (torch.tensor(column) for column in zip(*SIZES, strict=True))
    ends = []
    for nodes, _, edges in SIZES:
        places = torch.randperm(nodes * nodes, generator=generator)[:edges]  # distinct: an edge stands once
        ends.append(torch.stack([places // max(nodes, 1), places % max(nodes, 1)]))
    sources, targets = torch.cat(ends, 1)
    return Graphs(n, r, m, torch.randn(int((n * r).sum()), generator=generator), sources, targets)


class Case(NamedTuple):
    """An operation, and what torch makes of the same rows of one graph."""

    spaces: tuple[Space, ...]  # of the inputs
    record: Callable[..., Symbol]
    expected: Callable[..., Tensor]  # (sizes of the graph, inputs, each (rows, width)) → (rows, width)


class Sizes(NamedTuple):
    n: int
    r: int
    u: Tensor  # (n, r)
    source: Tensor
    target: Tensor


def op(code: Code, space: Space | None = None, **options: Any) -> Callable[..., Symbol]:
    def record(*inputs: Symbol) -> Symbol:
        first = inputs[0]
        return first.program.record(code, inputs, first.space if space is None else space, first.width, **options)

    return record


def vectors(x: Tensor, sizes: Sizes) -> Tensor:
    return x.view(sizes.n, sizes.r, x.shape[-1])


def pairs(x: Tensor, sizes: Sizes) -> Tensor:
    return x.view(sizes.n, sizes.n, x.shape[-1])


def flat(x: Tensor, width: int) -> Tensor:
    return x.reshape(-1, width)


def bounded(x: Tensor, reach: float) -> Tensor:
    """x (n, rows, width)."""
    square = x.square().sum(1, keepdim=True).mean(-1, keepdim=True)
    return x * (1 + square / reach**2).rsqrt()


def vector_norm(v: Tensor) -> Tensor:
    centred = v - v.mean(-1, keepdim=True)
    return centred * centred.square().sum(1, keepdim=True).clamp(min=1e-6).rsqrt()


def factor(n: int) -> float:
    return float(max(n, 1) ** -0.925)


def unfolded(x: Tensor, sizes: Sizes) -> Tensor:
    """Unordered pairs (n(n + 1)/2, c) → (n, n, c)."""
    i, j = torch.triu_indices(sizes.n, sizes.n)
    upper = x.new_zeros(sizes.n, sizes.n, x.shape[-1]).index_put((i, j), x)
    diagonal = torch.eye(sizes.n, dtype=x.dtype).unsqueeze(-1)
    return upper + upper.transpose(0, 1) * (1 - diagonal)


def folded(x: Tensor) -> Tensor:
    """(n, n, c) → (n(n + 1)/2, c)."""
    i, j = torch.triu_indices(x.shape[0], x.shape[0])
    return x[i, j]


N, V, P, E, M, G = Space.NODES, Space.VECTORS, Space.PAIRS, Space.EIGENVALUES, Space.EDGES, Space.GRAPH
S = Space.SYMMETRIC
CASES = {
    "silu": Case((P,), op(Code.SILU), lambda z, x: functional.silu(x)),
    "add": Case((V, V), op(Code.ADD, number=0.5), lambda z, x, y: x + 0.5 * y),
    "multiply": Case((N, N), op(Code.MULTIPLY, number=1.0), lambda z, x, y: x * (1 + y)),
    "gate": Case(
        (V, N), op(Code.GATE, number=1.0), lambda z, v, g: flat(vectors(v, z) * (1 + g).unsqueeze(1), v.shape[-1])
    ),
    "norm": Case((N,), op(Code.NORM), lambda z, x: functional.layer_norm(x, x.shape[-1:])),
    "bound vectors": Case(
        (V,), op(Code.BOUND_VECTORS, number=3.0), lambda z, v: flat(bounded(vectors(v, z), 3.0), v.shape[-1])
    ),
    "bound scalars": Case(
        (N,), op(Code.BOUND_SCALARS, number=5.0), lambda z, s: bounded(s.unsqueeze(1), 5.0).squeeze(1)
    ),
    "norm vectors": Case(
        (V,), op(Code.NORM_VECTORS, number=1e-3), lambda z, v: flat(vector_norm(vectors(v, z)), v.shape[-1])
    ),
    "pair products": Case(
        (V, V),
        op(Code.PAIR_PRODUCTS, P),
        lambda z, q, k: flat(torch.einsum("ikc,jkc->ijc", vectors(q, z), vectors(k, z)), q.shape[-1]),
    ),
    "pair outer": Case(
        (N, N), op(Code.PAIR_OUTER, P), lambda z, a, b: flat(a.unsqueeze(1) * b.unsqueeze(0), a.shape[-1])
    ),
    "pair add": Case(
        (S, N),
        op(Code.PAIR_ADD),
        lambda z, x, a: folded(unfolded(x, z) + a.unsqueeze(1) + a.unsqueeze(0)),
    ),
    "row products": Case((V, V), op(Code.ROW_PRODUCTS, N), lambda z, a, b: (vectors(a, z) * vectors(b, z)).sum(1)),
    "diagonal": Case((P,), op(Code.DIAGONAL, N), lambda z, x: pairs(x, z).diagonal().mT),
    "sums of vectors": Case(
        (P, V, V),
        op(Code.SUMS, V, number=0.925),
        lambda z, a, w, x: (
            x + factor(z.n) * flat(torch.einsum("ijc,jkc->ikc", pairs(a, z), vectors(w, z)), x.shape[-1])
        ),
    ),
    "sums of scalars": Case(
        (P, N), op(Code.SUMS, N, number=0.25, flag=1), lambda z, a, w: 0.25 * torch.einsum("ijc,jc->ic", pairs(a, z), w)
    ),
    "sum": Case((N,), op(Code.POOL, G), lambda z, x: x.sum(0, keepdim=True)),
    "mean": Case((E,), op(Code.POOL, G, flag=1), lambda z, x: x.sum(0, keepdim=True) / max(len(x), 1)),
    "max": Case(
        (N,), op(Code.POOL, G, flag=2), lambda z, x: x.amax(0, keepdim=True) if len(x) else x.sum(0, keepdim=True)
    ),
    "times graph": Case((N, G), op(Code.TIMES_GRAPH), lambda z, x, y: x * y),
    "plus graph": Case((N, G), op(Code.PLUS_GRAPH), lambda z, x, y: x + y),
    "plus coordinates": Case(
        (V, E),
        op(Code.PLUS_GRAPH, flag=1),
        lambda z, x, y: flat(vectors(x, z) + y.unsqueeze(0), x.shape[-1]),
    ),
    "points": Case((E,), op(Code.POINTS, V), lambda z, f: flat(z.u.unsqueeze(-1) * f, f.shape[-1])),
    "edge sums": Case(
        (M, V, V),
        op(Code.EDGE_SUMS, V),
        lambda z, e, v, x: flat(
            vectors(x, z).index_add(0, z.source, e.unsqueeze(1) * vectors(v, z)[z.target]), v.shape[-1]
        ),
    ),
    "edge pairs": Case(
        (M, G),
        op(Code.EDGE_PAIRS, P, number=1.0),
        lambda z, e, x: x.expand(z.n * z.n, -1).index_copy(0, z.source * z.n + z.target, e),
    ),
    "squares": Case(
        (V, V, V, V),
        lambda a, b, v, x: a.program.record(
            Code.TIMES_SQUARE, [v, a.program.record(Code.SQUARE, [a, b], Space.SQUARES, 1, number=0.925), x], V, v.width
        ),
        lambda z, a, b, v, x: (
            x
            + flat(
                torch.einsum("ikc,ilc,jld->jkd", vectors(a, z), vectors(b, z), vectors(v, z))
                * factor(z.n)
                / a.shape[-1],
                v.shape[-1],
            )
        ),
    ),
    "symmetric products": Case(
        (V,),
        lambda q: q.program.record(Code.PAIR_PRODUCTS, [q, q], S, q.width),
        lambda z, q: folded(torch.einsum("ikc,jkc->ijc", vectors(q, z), vectors(q, z))),
    ),
    "symmetric diagonal": Case((S,), op(Code.DIAGONAL, N), lambda z, x: unfolded(x, z).diagonal().mT),
    "symmetric sums of vectors": Case(
        (S, V, V),
        op(Code.SUMS, V, number=0.925),
        lambda z, a, w, x: (
            x + factor(z.n) * flat(torch.einsum("ijc,jkc->ikc", unfolded(a, z), vectors(w, z)), x.shape[-1])
        ),
    ),
    "symmetric sums of scalars": Case(
        (S, N),
        lambda a, w: a.program.record(
            Code.SUMS, [a, a.program.stacked([w * w, w + w])], N, 2 * a.width, number=0.25, flag=1
        ),
        lambda z, a, w: (
            0.25 * torch.cat([torch.einsum("ijc,jc->ic", unfolded(a, z), x) for x in (w * w, w + w)], dim=1)
        ),
    ),
    "symmetric edges": Case(
        (M, G),
        lambda e, x: x.program.record(
            Code.POINTS_OF_PAIRS, [x.program.record(Code.EDGE_PAIRS, [e, None], S, x.width, 8.0), x], S, x.width
        ),
        lambda z, e, x: folded(
            torch.zeros(z.n, z.n, e.shape[-1], dtype=e.dtype).index_put((z.source, z.target), 8.0 * e)
            + torch.eye(z.n, dtype=e.dtype).unsqueeze(-1) * x
        ),
    ),
    "scale": Case((N,), op(Code.SCALE, number=0.925), lambda z, x: factor(z.n) * x),
}


def outputs_and_gradients(
    executable: Executable, graphs: Graphs, inputs: list[Tensor], parameters: list[Tensor], recompute: bool
) -> tuple[Tensor, list[Tensor]]:
    leaves = [tensor for tensor in (*inputs, *parameters) if tensor.requires_grad]
    result = run(executable, graphs, inputs, recompute=recompute)[0]
    weights = torch.linspace(-1, 1, result.numel()).view_as(result)
    return result, list(torch.autograd.grad((result * weights).sum(), leaves))


def make_inputs(graphs: Graphs, spaces: tuple[Space, ...], width: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(sum(rows_of(graphs, s)), width, generator=generator).requires_grad_() for s in spaces]


def expected_rows(case: Case, graphs: Graphs, inputs: list[Tensor]) -> Tensor:
    """In float64, graph by graph."""
    split = [
        torch.split(tensor.double(), rows_of(graphs, space)) for tensor, space in zip(inputs, case.spaces, strict=True)
    ]
    u = torch.split(graphs.eigenvectors.double(), rows_of(graphs, Space.VECTORS))
    source, target = (torch.split(end, rows_of(graphs, Space.EDGES)) for end in (graphs.sources, graphs.targets))
    found = []
    for graph, (n, r, _) in enumerate(SIZES):
        sizes = Sizes(n, r, u[graph].view(n, r), source[graph], target[graph])
        found.append(case.expected(sizes, *(part[graph] for part in split)))
    return torch.cat(found)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_an_operation_equals_torch(name: str, width: int, recompute: bool) -> None:
    kernels = library()
    assert kernels is not None
    check_operation(kernels, name, width, recompute)


def check_operation(kernels: ctypes.CDLL, name: str, width: int, recompute: bool) -> None:
    case, graphs = CASES[name], make_graphs()
    program = Program()
    inputs = make_inputs(graphs, case.spaces, width)
    symbols = [program.input(space, width, itemgetter(at), differentiable=True) for at, space in enumerate(case.spaces)]
    program.output(case.record(*symbols))
    result, gradients = outputs_and_gradients(Executable(program, kernels), graphs, inputs, [], recompute)
    expected = expected_rows(case, graphs, inputs)
    weights = torch.linspace(-1, 1, expected.numel()).view_as(expected).double()
    wanted = torch.autograd.grad((expected * weights).sum(), inputs)
    torch.testing.assert_close(result.double(), expected, rtol=2e-5, atol=2e-5)
    for got, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("widths", [(3, 5), (16, 32), (28, 84), (80, 100)])
def test_a_linear_map_in_parts_and_stacked_equals_torch(widths: tuple[int, int]) -> None:
    """W x + b cut into parts, one multiplied, stacked in another order, through a second map and an affine norm."""
    small, large = widths
    graphs = make_graphs()
    x = make_inputs(graphs, (N,), small)[0]
    generator = torch.Generator().manual_seed(2)
    first = torch.randn(2 * large, small, generator=generator).requires_grad_()
    bias = torch.randn(2 * large, generator=generator).requires_grad_()
    second = torch.randn(small, 3 * large, generator=generator).requires_grad_()
    scale, shift = (torch.randn(small, generator=generator).requires_grad_() for _ in range(2))
    program = Program()
    s = program.input(N, small, lambda batch: batch[0], differentiable=True)
    left, right = program.linear(s, first, bias).chunk(2)
    mixed = program.linear(program.stacked([left * right, right, left]), second)
    numbers = {"weight": program.parameter(scale), "bias": program.parameter(shift)}
    program.output(program.record(Code.NORM, [mixed], N, small, **numbers))
    kernels = library()
    assert kernels is not None
    parameters = [first, bias, second, scale, shift]
    result, gradients = outputs_and_gradients(Executable(program, kernels), graphs, [x], parameters, False)
    a, b = (x @ first.mT + bias).chunk(2, dim=1)
    expected = functional.layer_norm(torch.cat([a * b, b, a], 1) @ second.mT, (small,), scale, shift)
    weights = torch.linspace(-1, 1, expected.numel()).view_as(expected)
    wanted = torch.autograd.grad((expected * weights).sum(), [x, *parameters])
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    for got, want in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3 * float(want.abs().max()))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The kernels for the oldest processors of this kind: vectors of 4 numbers, no fused multiply-add."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if platform.machine() not in ("x86_64", "AMD64") or compiler is None:
        pytest.skip("needs g++ on x86-64")
    path = tmp_path_factory.mktemp("kernels") / "narrow.so"
    flags = ["-O1", "-march=x86-64", "-std=c++17", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize("name", CASES)
def test_an_operation_on_another_processor(name: str, narrow: ctypes.CDLL) -> None:
    check_operation(narrow, name, 6, recompute=False)


def test_the_longest_vectors_in_use_are_those_of_the_processor(narrow: ctypes.CDLL) -> None:
    kernels = library()
    assert kernels is not None
    assert narrow.pointset_lanes() == 4 <= kernels.pointset_lanes()
