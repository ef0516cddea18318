"""The layer of the released model once more, as one function with its gradient written by hand, for speed.

`ReleasedLayer` in released.py says what is computed; here only the way differs, and `tests/test_released_fast.py`
compares values and gradients. On a CPU a layer is bound by memory, so that the ways to be fast are few passes and small
pieces that stay in the cache:

* scalars and vectors stand in one tensor y (d, B, n, r + 1), the scalars in its last column: one product with the
  attention moves both;
* W_q, W_k and W₁, W₂ are applied by one product each; a row of ones carries the biases of the pair MLP;
* a group is cut into pieces of about the size of the second-level cache (`piece_size`);
* what is cheap to compute again (activations, gates) is not kept for the backward pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, silu

_PIECE_BYTES = 400_000  # of one tensor of vectors; measured with benchmarks/encoder_speed.py
_silu_backward = torch.ops.aten.silu_backward


class LayerWeights(NamedTuple):
    """The parameters of one layer as the products want them."""

    query_key: Tensor  # (2d, d)
    left_right: Tensor  # (2d, d)
    pair1: Tensor  # (d, d + 1) the bias in the last column
    pair2: Tensor  # (d, d + 1)
    gates: Tensor  # (2d, d) of s and of v; (d, d) in the last layer
    gates_bias: Tensor
    value_s: Tensor  # (d, d)
    value_s_bias: Tensor
    value_v: Tensor | None  # (d, d); None in the last layer


def piece_size(channels: int, nodes: int, rank: int) -> int:
    """How many graphs of a group are computed together."""
    return max(1, _PIECE_BYTES // max(4 * channels * nodes * (rank + 1), 1))


def fast_layer(
    y: Tensor, previous: Tensor | None, weights: LayerWeights, scale: float, floor: float, epsilon: float
) -> tuple[Tensor, Tensor]:
    """Y (d, B, n, r + 1) and the attention before (d, B, n, n) → y and the attention after."""
    y, attention = _FastLayer.apply(y, previous, scale, floor, epsilon, *weights)  # type: ignore[no-untyped-call]
    return y, attention


def _row_sums(x: Tensor, columns: int) -> Tensor:
    """Sums of rows of so many numbers, as a product with ones: faster than a reduction over few elements."""
    return torch.mv(x.view(-1, columns), x.new_ones(columns))


class _FastLayer(Function):
    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        previous: Tensor | None,
        scale: float,
        floor: float,
        epsilon: float,
        query_key: Tensor,
        left_right: Tensor,
        pair1: Tensor,
        pair2: Tensor,
        gates: Tensor,
        gates_bias: Tensor,
        value_s: Tensor,
        value_s_bias: Tensor,
        value_v: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        d, graphs, n, columns = y.shape
        matrices, points, pairs = d * graphs, graphs * n, graphs * n * n

        # v̂, (d, B, n, r + 1) with zeros in the column of the scalars
        v = y - y.mean(0, keepdim=True)
        v[..., -1] = 0
        squares = _row_sums(v * v, columns)
        inverse = squares.clamp(min=floor**2).rsqrt_().view(d, graphs, n, 1)
        v *= inverse
        flat_v = v.view(d, -1)

        # attention, (d, B, n, n)
        qk = torch.mm(query_key, flat_v)
        x = y.new_empty(d + 1, pairs)
        x[d] = 1
        torch.bmm(
            qk[:d].view(matrices, n, columns), qk[d:].view(matrices, n, columns).mT, out=x[:d].view(matrices, n, n)
        )
        hidden1 = torch.mm(pair1, x)
        active = torch.empty_like(x)
        active[d] = 1
        torch.ops.aten.silu.out(hidden1, out=active[:d])
        hidden2 = torch.mm(pair2, active)
        attention = silu(hidden2).view(d, graphs, n, n)
        if previous is not None:
            attention += previous

        # scalars, (B·n, d)
        s, mean, deviation = torch.native_layer_norm(
            y[..., -1].reshape(d, points).mT.contiguous(), [d], None, None, epsilon
        )
        lr = torch.mm(left_right, flat_v)
        lengths = _row_sums(lr[:d] * lr[d:], columns).view(d, points).mT
        hidden_gates = linear(s, gates, gates_bias)
        gate = silu(hidden_gates)
        mixed_s = torch.addcmul(s, gate[:, :d], lengths)
        hidden_s = linear(mixed_s, value_s, value_s_bias)

        # sums over the points
        if value_v is None:
            values = silu(hidden_s).mT.reshape(matrices, n, 1)
            result = y.clone()
            sums = torch.bmm(attention.view(matrices, n, n), values)
            result[..., -1:].add_(sums.view(d, graphs, n, 1), alpha=scale)
        else:
            gated = v * (gate[:, d:] + 1).mT.reshape(d, graphs, n, 1)
            values = torch.mm(value_v, gated.view(d, -1)).view(matrices, n, columns)
            values.view(d, points, columns)[..., -1] = silu(hidden_s).mT
            result = torch.bmm(attention.view(matrices, n, n), values).view_as(y)
            torch.add(y, result, alpha=scale, out=result)

        ctx.save_for_backward(
            *(v, inverse, squares > floor**2, qk, x, hidden1, hidden2, attention, y[..., -1].contiguous(), mean),
            *(deviation, s, lr, lengths, hidden_gates, mixed_s, hidden_s, values),
            *(query_key, left_right, pair1, pair2, gates, value_s, value_v),
        )
        ctx.scale, ctx.epsilon, ctx.first = scale, epsilon, previous is None
        return result, attention

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor, grad_attention: Tensor) -> tuple[Tensor | None, ...]:
        v, inverse, above_floor, qk, x, hidden1, hidden2, attention, raw_s, mean, *rest = ctx.saved_tensors
        deviation, s, lr, lengths, hidden_gates, mixed_s, hidden_s, values, *rest = rest
        query_key, left_right, pair1, pair2, gates, value_s, value_v = rest
        d, graphs, n, columns = v.shape
        matrices, points = d * graphs, graphs * n
        weights, flat_v = attention.view(matrices, n, n), v.view(d, -1)

        # sums over the points
        last = value_v is None
        grad_sums = (grad_y[..., -1:] if last else grad_y).reshape(matrices, n, 1 if last else columns)
        grad_pairs = torch.bmm(grad_sums, values.mT)
        grad_pairs = torch.add(grad_attention.view_as(grad_pairs), grad_pairs, alpha=ctx.scale, out=grad_pairs)
        grad_values = torch.bmm(weights.mT, grad_sums).mul_(ctx.scale)
        grad_hidden_s = _silu_backward(grad_values[..., -1].reshape(d, points).mT, hidden_s)

        # scalars
        grad_value_s = grad_hidden_s.mT @ mixed_s
        grad_mixed = grad_hidden_s @ value_s
        gate = silu(hidden_gates)
        grad_gate = torch.empty_like(gate)
        torch.mul(grad_mixed, lengths, out=grad_gate[:, :d])
        grad_lengths = (grad_mixed * gate[:, :d]).mT.reshape(d, graphs, n, 1)

        # vectors that were summed
        grad_value_v: Tensor | None = None
        if last:
            grad_v = torch.zeros_like(flat_v)
        else:
            factor = (gate[:, d:] + 1).mT.reshape(d, graphs, n, 1)
            grad_values[..., -1] = 0
            flat_values = grad_values.view(d, -1)
            grad_v = torch.mm(value_v.mT, flat_values)
            shaped = grad_v.view_as(v)
            product = v * factor
            grad_value_v = torch.mm(flat_values, product.view(d, -1).mT)
            torch.mul(shaped, v, out=product)
            grad_gate[:, d:] = _row_sums(product, columns).view(d, points).mT
            shaped *= factor

        # pair MLP
        grad2 = _silu_backward(grad_pairs.view(d, -1), hidden2)
        active = torch.empty_like(x)
        active[d] = 1
        torch.ops.aten.silu.out(hidden1, out=active[:d])
        grad_pair2 = grad2 @ active.mT
        grad1 = torch.mm(pair2[:, :d].mT, grad2, out=active[:d])
        _silu_backward.grad_input(grad1, hidden1, grad_input=grad1)
        grad_pair1 = grad1 @ x.mT
        grad_x = torch.mm(pair1[:, :d].mT, grad1).view(matrices, n, n)

        # projections
        grad_projected = torch.empty_like(qk)
        query, key = qk[:d].view(matrices, n, columns), qk[d:].view(matrices, n, columns)
        torch.bmm(grad_x, key, out=grad_projected[:d].view(matrices, n, columns))
        torch.bmm(grad_x.mT, query, out=grad_projected[d:].view(matrices, n, columns))
        grad_query_key = grad_projected @ flat_v.mT
        grad_v.addmm_(query_key.mT, grad_projected)
        torch.mul(lr[d:].view_as(v), grad_lengths, out=grad_projected[:d].view_as(v))
        torch.mul(lr[:d].view_as(v), grad_lengths, out=grad_projected[d:].view_as(v))
        grad_left_right = grad_projected @ flat_v.mT
        grad_v.addmm_(left_right.mT, grad_projected)

        # normalisation of the vectors, and of the scalars in the last column
        shaped = grad_v.view_as(v)
        along = (_row_sums(shaped * v, columns) * above_floor).view_as(inverse)
        grad_input = torch.addcmul(shaped, v, along, value=-1)
        grad_input *= inverse
        grad_input[..., -1] = 0
        grad_input -= grad_input.mean(0, keepdim=True)
        grad_hidden_gates = _silu_backward(grad_gate, hidden_gates)
        grad_gates = grad_hidden_gates.mT @ s
        grad_mixed.addmm_(grad_hidden_gates, gates)
        grad_s = torch.ops.aten.native_layer_norm_backward(
            grad_mixed, raw_s.view(d, points).mT.contiguous(), [d], mean, deviation, None, None, [True, False, False]
        )[0]
        grad_input[..., -1] = grad_s.mT.reshape(d, graphs, n)
        grad_input += grad_y
        grads = (grad_query_key, grad_left_right, grad_pair1, grad_pair2, grad_gates, grad_hidden_gates.sum(0))
        before = None if ctx.first else grad_pairs.view_as(attention)
        return grad_input, before, None, None, None, *grads, grad_value_s, grad_hidden_s.sum(0), grad_value_v
