"""The heavy products of the encoders, with gradients written by hand.

Autograd would be right here too, and slower: it keeps every intermediate tensor and passes over memory several times
for each product. Each function below states its formula; `tests/test_products.py` compares value and gradient with the
plain expression. All tensors are channel-first: (d, B, n), (d, B, n, r), pairs (d, B, n, n).

Gradients of gradients (forces in a loss) are taken of the plain expression, which is then computed once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import silu

from pointset.native.program import Code, Space, Symbol

_silu_backward = torch.ops.aten.silu_backward


def normalised_vectors(v: Tensor, floor: float) -> Tensor:
    """Vectors centred over the channels, then of length 1 over the rank axis: c / max(‖c‖, floor), (d, B, n, r)."""
    if by_autograd():
        return _NormalisedVectors.plain(v, floor)
    result: Tensor = _apply(_NormalisedVectors, v, floor)[0]
    return result


def projected_products(
    projected: Tensor, query_s: Tensor | None = None, key_s: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Inner products of four projections of the vectors, stacked as (4d, B, n, r): queries, keys, left, right.

    Returns:
        pairs: ⟨query_i, key_j⟩, (d, B, n, n); with scalars (2d, B, n, n), where query_s_i · key_s_j comes first.
        points: ⟨left_i, right_i⟩, (d, B, n).
    """
    if isinstance(projected, Symbol):
        query, key, left, right = projected.chunk(4)
        points = left.program.record(Code.ROW_PRODUCTS, [left, right], Space.NODES, left.width)
        return _recorded_pairs(query, key, query_s, key_s), points
    if by_autograd():
        return _ProjectedProducts.plain(projected, query_s, key_s)
    pairs, points = _apply(_ProjectedProducts, projected, query_s, key_s)
    return pairs, points


def _recorded_pairs(query: Any, key: Any, query_s: Any, key_s: Any) -> Any:
    """Symbols of ⟨query_i, key_j⟩, after query_s_i · key_s_j where there are scalars."""
    program, width = query.program, query.width
    products = program.record(Code.PAIR_PRODUCTS, [query, key], Space.PAIRS, width)
    if query_s is None:
        return products
    return program.stacked([program.record(Code.PAIR_OUTER, [query_s, key_s], Space.PAIRS, width), products])


def pair_products(projected: Tensor, query_s: Tensor, key_s: Tensor) -> Tensor:
    """query_s_i · key_s_j and ⟨query_i, key_j⟩, (2d, B, n, n), from queries and keys stacked as (2d, B, n, r)."""
    query, key = projected.chunk(2)
    if isinstance(projected, Symbol):
        return _recorded_pairs(query, key, query_s, key_s)
    channels, graphs, nodes, _ = query.shape
    products = torch.bmm(_matrices(query), _matrices(key).mT).view(channels, graphs, nodes, nodes)
    return torch.cat([query_s.unsqueeze(-1) * key_s.unsqueeze(-2), products])


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """⟨left_i, right_i⟩ for every channel and point: (d, B, n, r) twice → (d, B, n)."""
    if isinstance(left, Symbol):
        return left.program.record(Code.ROW_PRODUCTS, [left, right], Space.NODES, left.width)
    return _row_sums(left * right)


def gated(v: Tensor, gate: Tensor, plus: float = 0.0) -> Tensor:
    """v_i ⊙ (plus + gate_i): (d, B, n, r), (d, B, n) → (d, B, n, r)."""
    if isinstance(v, Symbol):
        return v.program.record(Code.GATE, [v, gate], v.space, v.width, plus)
    return v * (gate + plus if plus else gate).unsqueeze(-1)


def pair_mlp(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, tail: bool) -> Tensor:
    """W₂ silu(W₁ x + b₁) + b₂ on every pair, through one more silu with ``tail``: (c, B, n, n) → (d, B, n, n)."""
    if torch.is_autocast_enabled(x.device.type):
        kind = torch.get_autocast_dtype(x.device.type)
        x, weight1, bias1, weight2, bias2 = (tensor.to(kind) for tensor in (x, weight1, bias1, weight2, bias2))
    if by_autograd():
        return _PairMLP.plain(x, weight1, bias1, weight2, bias2, tail)
    result: Tensor = _apply(_PairMLP, x, weight1, bias1, weight2, bias2, tail)
    return result


def attended(
    attention: Tensor, values_s: Tensor, values_v: Tensor | None, s: Tensor, v: Tensor, scale: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Equation (4) with residuals: s_i + scale Σ_j a_ij values_s_j and v_i + scale Σ_j a_ij values_v_j.

    ``scale`` is a number, or one for each point, (B, n), a constant. Without ``values_v`` the vectors stay as they are.
    """
    values_s = values_s.to(attention.dtype)
    if values_v is None:
        return _added(s, weighted_sums(attention, values_s.unsqueeze(-1)).squeeze(-1), scale), v
    values_v = values_v.to(attention.dtype)
    if by_autograd():
        sums_s, sums_v = _Attended.plain(attention, values_s, values_v)
        return _added(s, sums_s, scale), _added(v, sums_v, scale)
    s, v = _apply(_Attended, attention, values_s, values_v, s, v, scale)
    return s, v


def weighted_sums(weights: Tensor, values: Tensor) -> Tensor:
    """Σ_j weights_ij values_j for every channel: (d, B, n, n), (d, B, n, k) → (d, B, n, k)."""
    return torch.bmm(_matrices(weights), _matrices(values)).view_as(values)


def _added(x: Tensor, sums: Tensor, scale: float | Tensor) -> Tensor:
    """Sum x + scale · sums; the scale is a number, or (B, n) where x is (d, B, n) or (d, B, n, r)."""
    if not isinstance(scale, Tensor):
        return torch.add(x, sums, alpha=scale)
    return torch.addcmul(x, sums.to(x.dtype), scale if x.dim() == 3 else scale.unsqueeze(-1))


def by_autograd() -> bool:
    """Whether the plain expressions are wanted: inside torch.func's transforms and torch.export, which follow them."""
    return bool(torch._C._are_functorch_transforms_active()) or torch.compiler.is_exporting()


def _apply(function: type[Function], *arguments: Any) -> Any:
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


def _matrices(x: Tensor) -> Tensor:
    """(d, B, n, k) → (d·B, n, k). Written out, as -1 cannot be inferred at rank 0."""
    channels, graphs, rows, columns = x.shape
    return x.reshape(channels * graphs, rows, columns)


def _flat(x: Tensor) -> Tensor:
    """(d, …) → (d, K)."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _row_sums(x: Tensor) -> Tensor:
    """Sum over the last axis, as a product with ones: much faster than a reduction over few elements."""
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return (rows @ x.new_ones(x.shape[-1])).view(x.shape[:-1])


def _gradients(ctx: Any, plain: Callable[..., Any], inputs: Sequence[Tensor | None], grads: Any) -> list[Tensor | None]:
    """Gradients of a plain expression that can be differentiated again, for those inputs that need one.

    For a backward pass with create_graph=True only: it computes the expression once more.
    """
    # New names for the inputs: one may depend on another, and its gradient must not run through that.
    own = [None if tensor is None else tensor.view_as(tensor) for tensor in inputs]
    needed = [position for position in range(len(own)) if ctx.needs_input_grad[position]]
    outputs = plain(*own)
    chosen = [tensor for position in needed if (tensor := own[position]) is not None]
    found = torch.autograd.grad(outputs, chosen, grads, create_graph=True, allow_unused=True, materialize_grads=True)
    result: list[Tensor | None] = [None] * len(own)
    for position, gradient in zip(needed, found, strict=True):
        result[position] = gradient
    return result


class _NormalisedVectors(Function):
    """The inverse lengths are an output, too, so that the gradient is a formula of inputs and outputs alone."""

    @staticmethod
    def plain(v: Tensor, floor: float) -> Tensor:
        """The same by autograd."""
        centred = v - v.mean(0, keepdim=True)
        return centred * _row_sums(centred * centred).clamp(min=floor**2).rsqrt().unsqueeze(-1)

    @staticmethod
    def forward(ctx: Any, v: Tensor, floor: float) -> tuple[Tensor, Tensor]:
        result = v - v.mean(0, keepdim=True)
        squares = _row_sums(result * result)
        # The square is floored, not the root: the root's gradient is infinite at zero vectors.
        inverse = squares.clamp(min=floor**2).rsqrt()
        result *= inverse.unsqueeze(-1)
        ctx.save_for_backward(result, inverse, squares > floor**2)
        ctx.set_materialize_grads(False)  # the inverse has none in an ordinary backward pass
        return result, inverse

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, grad_inverse: Tensor | None) -> tuple[Tensor | None, None]:
        result, inverse, above_floor = ctx.saved_tensors
        if grad is None:
            if grad_inverse is None:
                return None, None
            grad = torch.zeros_like(result)
        along = _row_sums(grad * result)
        if grad_inverse is not None:
            along = along + grad_inverse * inverse
        along = along * above_floor  # below the floor the length counts as a constant
        inner = torch.addcmul(grad, result, along.unsqueeze(-1), value=-1)
        inner *= inverse.unsqueeze(-1)
        inner -= inner.mean(0, keepdim=True)
        return inner, None


class _ProjectedProducts(Function):
    @staticmethod
    def plain(projected: Tensor, query_s: Tensor | None, key_s: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same by autograd."""
        query, key, left, right = projected.chunk(4)
        pairs = (_matrices(query) @ _matrices(key).mT).view(*query.shape[:-1], query.shape[-2])
        if query_s is not None and key_s is not None:
            pairs = torch.cat([query_s.unsqueeze(-1) * key_s.unsqueeze(-2), pairs])
        return pairs, _row_sums(left * right)

    @staticmethod
    def forward(ctx: Any, projected: Tensor, query_s: Tensor | None, key_s: Tensor | None) -> tuple[Tensor, Tensor]:
        query, key, left, right = projected.chunk(4)
        channels, graphs, nodes, _ = query.shape
        if query_s is None or key_s is None:
            pairs = query.new_empty(channels, graphs, nodes, nodes)
        else:
            pairs = query.new_empty(2 * channels, graphs, nodes, nodes)
            torch.mul(query_s.unsqueeze(-1), key_s.unsqueeze(-2), out=pairs[:channels])
        torch.bmm(_matrices(query), _matrices(key).mT, out=_matrices(pairs[-channels:]))
        ctx.save_for_backward(projected, query_s, key_s)
        return pairs, _row_sums(left * right)

    @staticmethod
    def backward(ctx: Any, grad_pairs: Tensor, grad_points: Tensor) -> tuple[Tensor | None, ...]:
        projected, query_s, key_s = ctx.saved_tensors
        if torch.is_grad_enabled():
            grads = (grad_pairs, grad_points)
            return tuple(_gradients(ctx, _ProjectedProducts.plain, [projected, query_s, key_s], grads))
        query, key, left, right = projected.chunk(4)
        grad = torch.empty_like(projected, memory_format=torch.contiguous_format)  # the views below are written to
        grad_query, grad_key, grad_left, grad_right = grad.chunk(4)
        of_vectors = _matrices(grad_pairs[-query.shape[0] :])
        torch.bmm(of_vectors, _matrices(key), out=_matrices(grad_query))
        torch.bmm(of_vectors.mT, _matrices(query), out=_matrices(grad_key))
        torch.mul(right, grad_points.unsqueeze(-1), out=grad_left)
        torch.mul(left, grad_points.unsqueeze(-1), out=grad_right)
        if query_s is None:
            return grad, None, None
        of_scalars = _matrices(grad_pairs[: query.shape[0]])
        grad_query_s = torch.bmm(of_scalars, _matrices(key_s.unsqueeze(-1))).view_as(query_s)
        grad_key_s = torch.bmm(of_scalars.mT, _matrices(query_s.unsqueeze(-1))).view_as(key_s)
        return grad, grad_query_s, grad_key_s


class _PairMLP(Function):
    @staticmethod
    def plain(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, tail: bool) -> Tensor:
        """The same by autograd."""
        hidden = silu(torch.addmm(bias1.unsqueeze(-1), weight1, _flat(x)))
        result = torch.addmm(bias2.unsqueeze(-1), weight2, hidden)
        return (silu(result) if tail else result).view(weight2.shape[0], *x.shape[1:])

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor, tail: bool
    ) -> Tensor:
        hidden = torch.addmm(bias1.unsqueeze(-1), weight1, _flat(x))
        result = torch.addmm(bias2.unsqueeze(-1), weight2, silu(hidden))
        ctx.save_for_backward(x, weight1, bias1, weight2, bias2, hidden, result if tail else None)
        ctx.tail = tail
        return (silu(result) if tail else result).view(weight2.shape[0], *x.shape[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight1, bias1, weight2, bias2, hidden, before_tail = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = partial(_PairMLP.plain, tail=ctx.tail)
            return *_gradients(ctx, plain, [x, weight1, bias1, weight2, bias2], grad), None
        grad2 = _flat(grad)
        if before_tail is not None:
            grad2 = _silu_backward(grad2, before_tail)
        grad1 = weight2.mT @ grad2
        grad_weight2 = grad2 @ silu(hidden).mT
        _silu_backward.grad_input(grad1, hidden, grad_input=grad1)
        grad_x = (weight1.mT @ grad1).view_as(x)
        return grad_x, grad1 @ _flat(x).mT, grad1.sum(1), grad_weight2, grad2.sum(1), None


class _Attended(Function):
    @staticmethod
    def plain(attention: Tensor, values_s: Tensor, values_v: Tensor) -> tuple[Tensor, Tensor]:
        """The sums by autograd, before they are scaled and added."""
        return weighted_sums(attention, values_s.unsqueeze(-1)).squeeze(-1), weighted_sums(attention, values_v)

    @staticmethod
    def forward(
        ctx: Any, attention: Tensor, values_s: Tensor, values_v: Tensor, s: Tensor, v: Tensor, scale: float | Tensor
    ) -> tuple[Tensor, Tensor]:
        weights = _matrices(attention)
        sums_v = torch.bmm(weights, _matrices(values_v)).view_as(v)
        sums_s = torch.bmm(weights, _matrices(values_s.unsqueeze(-1))).view_as(s)
        of_points = scale if isinstance(scale, Tensor) else None
        ctx.save_for_backward(attention, values_s, values_v, of_points)
        ctx.scale = 1.0 if isinstance(scale, Tensor) else scale
        return _added(s, sums_s, scale), _added(v, sums_v, scale)

    @staticmethod
    def backward(ctx: Any, grad_s: Tensor, grad_v: Tensor) -> tuple[Tensor | None, ...]:
        attention, values_s, values_v, of_points = ctx.saved_tensors
        scaled_s, scaled_v = grad_s, grad_v
        if of_points is not None:
            scaled_s, scaled_v = grad_s * of_points, grad_v * of_points.unsqueeze(-1)
        sums_s, sums_v = scaled_s.to(attention.dtype), scaled_v.to(attention.dtype)
        weights, scale = _matrices(attention), ctx.scale
        if torch.is_grad_enabled():
            inputs, grads = [attention, values_s, values_v], (scale * sums_s, scale * sums_v)
            return *_gradients(ctx, _Attended.plain, inputs, grads), grad_s, grad_v, None
        sums_v = _matrices(sums_v)
        grad_attention = torch.empty_like(weights)
        torch.baddbmm(grad_attention, sums_v, _matrices(values_v).mT, beta=0, alpha=scale, out=grad_attention)
        grad_attention = grad_attention.view_as(attention)
        grad_attention.addcmul_(sums_s.unsqueeze(-1), values_s.unsqueeze(-2), value=scale)
        grad_values_v = torch.empty_like(_matrices(values_v))
        torch.baddbmm(grad_values_v, weights.mT, sums_v, beta=0, alpha=scale, out=grad_values_v)
        grad_values_s = torch.bmm(weights.mT, _matrices(sums_s.unsqueeze(-1))).mul_(scale).view_as(values_s)
        return grad_attention, grad_values_s, grad_values_v.view_as(values_v), grad_s, grad_v, None
