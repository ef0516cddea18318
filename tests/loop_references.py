"""The paper's equations by loops: slow and obvious, in numpy, for one graph at a time.

Written from the paper (Sections 3.2 and 4, Appendices H and K) and, for the released model, from its description. A
point i has scalars ``s[i]`` (d,) and vectors ``v[i]`` (r, d), as the paper writes them. Letters: channels a, b, c; rank
axis k; points i, j.

What the paper does not print and the encoders add stands here in functions of its own: :func:`layer_norm` of the
scalars and :func:`bounded` of the vectors (in the released model :func:`unit_vectors`) before a layer uses them,
:func:`size_scale` at every sum over points, and residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Points = list[Array]  # one array for each point
Function = Callable[[Array], Array]


# ---- added by the encoders -------------------------------------------------------------------------------------------


def layer_norm(x: Array) -> Array:
    """Mean 0 and variance 1 over the channels of one point, with 1e-5 added to the variance."""
    mean = sum(x) / len(x)
    variance = sum((value - mean) ** 2 for value in x) / len(x)
    return np.array([(value - mean) / math.sqrt(variance + 1e-5) for value in x])


def unit_vectors(v: Array) -> Array:
    """(r, d): the mean over the channels taken away, then each channel's vector divided by max(its length, 1e-3)."""
    rank, channels = v.shape
    result = np.zeros_like(v)
    for k in range(rank):
        mean = sum(v[k]) / channels
        for c in range(channels):
            result[k, c] = v[k, c] - mean
    for c in range(channels):
        length = math.sqrt(sum(result[k, c] ** 2 for k in range(rank)))
        for k in range(rank):
            result[k, c] /= max(length, 1e-3)
    return result


def bounded(v: Array, squared_reach: float = 9) -> Array:
    """(r, d): divided by √(1 + ℓ²/9), ℓ² the mean over the channels of the squared lengths."""
    rank, channels = v.shape
    mean = sum(v[k, c] ** 2 for k in range(rank) for c in range(channels)) / channels
    return np.array(
        [[v[k, c] / math.sqrt(1 + mean / squared_reach) for c in range(channels)] for k in range(rank)]
    ).reshape(v.shape)


def bounded_scalars(s: Array) -> Array:
    """(d,): divided by √(1 + ℓ²/25), ℓ² the mean over the channels of the squares."""
    mean = sum(value**2 for value in s) / len(s)
    return np.array([value / math.sqrt(1 + mean / 25) for value in s])


def size_scale(nodes: int) -> float:
    return math.pow(nodes, -0.925)


# ---- small parts -----------------------------------------------------------------------------------------------------


def silu(x: Array) -> Array:
    return np.array([value / (1 + math.exp(-value)) for value in x])


def times(weight: Array, x: Array) -> Array:
    """Matrix times vector."""
    return np.array([sum(weight[a, b] * x[b] for b in range(len(x))) for a in range(len(weight))])


def product(left: Array, right: Array) -> Array:
    """Matrix times matrix."""
    result = np.zeros((left.shape[0], right.shape[1]))
    for row in range(left.shape[0]):
        for column in range(right.shape[1]):
            for inner in range(left.shape[1]):
                result[row, column] += left[row, inner] * right[inner, column]
    return result


def diagonal(matrix: Array) -> Array:
    return np.array([matrix[c, c] for c in range(len(matrix))])


def perceptron(steps: Sequence[Function]) -> Function:
    """An MLP as a function of one vector: its steps one after the other."""

    def function(x: Array) -> Array:
        for step in steps:
            x = step(x)
        return x

    return function


# ---- coordinates, Section 3.2 ----------------------------------------------------------------------------------------


def psrd_coordinates(vectors: Array, values_of_f: Array) -> Points:
    """Definition 3.2: channel c of point i is U_i diag(f_c(Λ)); U (n, r), f(Λ) (r, d)."""
    nodes, rank = vectors.shape
    channels = values_of_f.shape[1]
    points = [np.zeros((rank, channels)) for _ in range(nodes)]
    for i in range(nodes):
        for k in range(rank):
            for c in range(channels):
                points[i][k, c] = vectors[i, k] * values_of_f[k, c]
    return points


def srd_values(eigenvalues: Array, scale: Array) -> Array:
    """SRD, f(λ) = √λ; for negative λ the pair √|λ|, sgn(λ)√|λ| of the proof of Theorem 3.3, half of the channels each.

    Added by the encoder: a number for each channel.
    """
    result = np.zeros((len(eigenvalues), len(scale)))
    for k, value in enumerate(eigenvalues):
        for c in range(len(scale)):
            sign = 1.0 if c < len(scale) // 2 else math.copysign(1.0, value)
            result[k, c] = scale[c] * sign * math.sqrt(abs(value))
    return result


def polynomial_values(eigenvalues: Array, weights: Array, reach: float) -> Array:
    """f_c(λ) = Σ_k w_ck T_k(2λ/reach − 1), T₀ = 1, T₁ = x, T_k = 2x·T_{k−1} − T_{k−2}, term by term. (r,) → (r, d)."""
    result = np.zeros((len(eigenvalues), len(weights)))
    for position, value in enumerate(eigenvalues):
        for channel, row in enumerate(weights):
            polynomial = np.polynomial.Chebyshev(row, domain=[0, reach])
            result[position, channel] = polynomial(value)
    return result


def deep_set_values(eigenvalues: Array, embedding: Function, layers: Sequence[tuple[Function, Function]]) -> Array:
    """The DeepSet over eigenvalues: √λ → embedding → x + mean(MLP_a(x)) ⊙ MLP_b(x), repeated. (r,) → (r, d)."""
    x = [embedding(np.array([math.copysign(math.sqrt(abs(value)), value)])) for value in eigenvalues]
    for pooled, own in layers:
        mean = sum(pooled(row) for row in x) / len(x)
        x = [row + mean * own(row) for row in x]
    return np.array(x)


def summed_over_pairs(weights: Array, points: Points) -> Points:
    """Σ_j e_ij ⊙ v_j; weights e (n, n, d), points (r, d)."""
    result = [np.zeros_like(point) for point in points]
    for i in range(len(points)):
        for j in range(len(points)):
            for k in range(points[j].shape[0]):
                for c in range(points[j].shape[1]):
                    result[i][k, c] += weights[i, j, c] * points[j][k, c]
    return result


# ---- Point Set Transformer, Section 4 --------------------------------------------------------------------------------


@dataclass
class MixerWeights:
    """Equations (1) and (2)."""

    w1: Array
    w2: Array
    mlp1: Function
    w3: Array | None = None  # None in a last layer, whose vectors nobody reads
    w4: Array | None = None
    mlp2: Function | None = None


@dataclass
class AttentionWeights:
    """Equation (3)."""

    wq_s: Array
    wk_s: Array
    wq_v: Array
    wk_v: Array
    mlp: Function


def mixed_scalars(s: Array, v: Array, w: MixerWeights) -> Array:
    """Equation (1): s' = MLP₁(s ‖ diagonal(W₁ vᵀ v W₂ᵀ))."""
    gram = product(product(product(w.w1, v.T), v), w.w2.T)
    return w.mlp1(np.concatenate([s, diagonal(gram)]))


def mixed_vectors(s: Array, v: Array, w: MixerWeights) -> Array:
    """Equation (2): v' = v diag(MLP₂(s)) W₃ + v W₄."""
    assert w.mlp2 is not None and w.w3 is not None and w.w4 is not None
    return product(product(v, np.diag(w.mlp2(s))), w.w3) + product(v, w.w4)


def attention(s: Points, v: Points, w: AttentionWeights) -> list[Points]:
    """Equation (3): Atten_ij = MLP((W_q s_i ⊙ W_k s_j) ‖ diagonal(W_q v_iᵀ v_j W_k)), a vector of d for each pair."""
    result: list[Points] = []
    for i in range(len(s)):
        row = []
        for j in range(len(s)):
            of_scalars = times(w.wq_s, s[i]) * times(w.wk_s, s[j])
            of_vectors = diagonal(product(product(product(w.wq_v, v[i].T), v[j]), w.wk_v))
            row.append(w.mlp(np.concatenate([of_scalars, of_vectors])))
        result.append(row)
    return result


def combined(weights: list[Points], values: Points, before: Points, scale: float | None = None) -> Points:
    """Equation (4), x_i ← Σ_j Atten_ij x'_j, with what is added: the residual and n^-0.925, or another scale.

    Values (d,) or (r, d).
    """
    scale = size_scale(len(values)) if scale is None else scale
    result = []
    for i in range(len(values)):
        total = np.zeros_like(values[i])
        for j in range(len(values)):
            total = total + weights[i][j] * values[j]  # channels are the last axis of both
        result.append(before[i] + scale * total)
    return result


def pst_layer(
    s: Points, v: Points, mixer: MixerWeights, pair: AttentionWeights, scale: float | None = None
) -> tuple[Points, Points]:
    """One layer, equations (1) to (4). Queries and keys are taken before the mixer, as in the proofs of Appendix A.

    With a ``scale``, the layer of the counting PST: scalars are bounded and not normalised, vectors may be longer.
    """
    s_hat = [layer_norm(x) if scale is None else bounded_scalars(x) for x in s]
    v_hat = [bounded(x) if scale is None else bounded(x, 100) for x in v]
    weights = attention(s_hat, v_hat, pair)
    points = list(zip(s_hat, v_hat, strict=True))
    new_s = combined(weights, [mixed_scalars(*point, mixer) for point in points], s, scale)
    if mixer.mlp2 is None:
        return new_s, v
    return new_s, combined(weights, [mixed_vectors(*point, mixer) for point in points], v, scale)


def one_layer_pst(s: Points, v: Points, pair: AttentionWeights, values: Sequence[Function]) -> Points:
    """PST-onelayer (Appendix H): one attention matrix, then s_i ← s_i + Σ_j Atten_ij MLP(s_j) in every layer."""
    weights = attention([layer_norm(x) for x in s], [bounded(x) for x in v], pair)
    for value in values:
        s = combined(weights, [value(layer_norm(x)) for x in s], s)
    return s


_POOLINGS: dict[str, Callable[[list[float]], float]] = {
    "sum": sum,
    "mean": lambda channel: sum(channel) / len(channel),
    "max": max,
    "scaled_sum": lambda channel: sum(channel) / 16,
}


def pooled(s: Points, pooling: str) -> Array:
    """Equation (5)."""
    result = np.zeros_like(s[0])
    for c in range(len(result)):
        channel = [point[c] for point in s]
        result[c] = _POOLINGS[pooling](list(channel))
    return result


# ---- Point Set DeepSet, Appendix K -----------------------------------------------------------------------------------


@dataclass
class DeepSetWeights:
    """Aggregator and update."""

    mlp3: Function
    mlp4: Function
    w5: Array | None = None  # None in a last layer
    w6: Array | None = None
    w7: Array | None = None
    w8: Array | None = None


def psds_layer(s: Points, v: Points, mixer: MixerWeights, w: DeepSetWeights) -> tuple[Points, Points]:
    """Mixer; aggregator s = Σ MLP₃(s_i), v = Σ v_i W₅, v_sq = Σ v_i W₆ W₇ v_iᵀ; update with MLP₄ and W₈.

    Aggregator and update take the mixed s' and v'. Added: sums times n^-0.925, v_sq divided by d, residuals.
    """
    nodes, scale = len(s), size_scale(len(s))
    channels = len(s[0])
    s_hat, v_hat = [layer_norm(x) for x in s], [bounded(x) for x in v]
    mixed_s = [mixed_scalars(*point, mixer) for point in zip(s_hat, v_hat, strict=True)]
    total_s = np.zeros(channels)
    for i in range(nodes):
        total_s = total_s + scale * w.mlp3(mixed_s[i])
    new_s = [s[i] + w.mlp4(mixed_s[i] + total_s) for i in range(nodes)]
    if mixer.mlp2 is None or w.w5 is None or w.w6 is None or w.w7 is None or w.w8 is None:
        return new_s, v
    mixed_v = [mixed_vectors(*point, mixer) for point in zip(s_hat, v_hat, strict=True)]
    rank = v[0].shape[0]
    total_v, squares = np.zeros((rank, channels)), np.zeros((rank, rank))
    for i in range(nodes):
        total_v = total_v + scale * product(mixed_v[i], w.w5)
        squares = squares + scale / channels * product(product(product(mixed_v[i], w.w6), w.w7), mixed_v[i].T)
    return new_s, [v[i] + product(squares, mixed_v[i]) + product(total_v, w.w8) for i in range(nodes)]


# ---- the released model ----------------------------------------------------------------------------------------------


@dataclass
class ReleasedWeights:
    """One layer of the released model; ``w`` None in a last layer."""

    wq: Array
    wk: Array
    w1: Array
    w2: Array
    pair: Function
    gate_s: Function
    value_s: Function
    gate_v: Function | None = None
    w: Array | None = None
    normalised: Function = unit_vectors
    exponent: float = 0.925


def projected(weight: Array, point: Array) -> Array:
    """W v_i with channels as columns: (r, d) → (r, d)."""
    return np.array([times(weight, row) for row in point]).reshape(point.shape)


def inner(left: Array, right: Array) -> Array:
    """⟨left, right⟩ over the rank axis, for each channel: (r, d) twice → (d,)."""
    rank, channels = left.shape
    return np.array([sum(left[k, c] * right[k, c] for k in range(rank)) for c in range(channels)])


def released_layer(
    s: Points, v: Points, before: list[Points] | None, w: ReleasedWeights
) -> tuple[Points, Points, list[Points]]:
    """As described: pair terms ⟨W_q v̂_i, W_k v̂_j⟩ → MLP · n^-0.925, accumulated; products with residuals as mixer."""
    nodes, scale = len(s), math.pow(len(s), -w.exponent)
    s_hat, v_hat = [layer_norm(x) for x in s], [w.normalised(x) for x in v]
    now: list[Points] = []
    for i in range(nodes):
        row = []
        for j in range(nodes):
            term = w.pair(inner(projected(w.wq, v_hat[i]), projected(w.wk, v_hat[j]))) * scale
            row.append(term if before is None else before[i][j] + term)
        now.append(row)
    new_s = []
    for i in range(nodes):
        total = s[i]
        for j in range(nodes):
            lengths = inner(projected(w.w1, v_hat[j]), projected(w.w2, v_hat[j]))
            total = total + now[i][j] * w.value_s(s_hat[j] + w.gate_s(s_hat[j]) * lengths)
        new_s.append(total)
    if w.w is None or w.gate_v is None:
        return new_s, v, now
    new_v = []
    for i in range(nodes):
        sum_v = v[i]
        for j in range(nodes):
            sum_v = sum_v + now[i][j] * projected(w.w, v_hat[j] + v_hat[j] * w.gate_v(s_hat[j]))
        new_v.append(sum_v)
    return new_s, new_v, now


@dataclass
class ReleasedDeepSetWeights:
    """One layer of the released PSDS."""

    left: Array
    right: Array
    w1: Array
    w2: Array
    w3: Array
    w5: Array
    w6: Array
    w7: Array
    gate_s: Function
    gate_v: Function
    deep_set: Sequence[tuple[Function, Function]]
    before: Function
    after: Function
    of_trace: Function
    of_s: Function
    of_v: Function
    update: Function


@dataclass
class ReleasedSums:
    """What all points of a graph give: (d,), (r, d) and, for each channel, (r, r)."""

    s: Array
    v: Array
    square: Array  # (r, r, d)


def released_sums(s: Points, v_hat: Points, w: ReleasedDeepSetWeights) -> ReleasedSums:
    """The aggregator: a DeepSet of the scalars, their mean between two maps; sums of vectors, and of their squares."""
    nodes, (rank, channels) = len(s), v_hat[0].shape
    x = s
    for pooled_map, own in w.deep_set:
        mean = sum(pooled_map(point) for point in x) / nodes
        x = [point + mean * own(point) for point in x]
    total_s = np.zeros(channels)
    for point in x:
        total_s = total_s + w.before(point) / nodes
    total_v, square = np.zeros((rank, channels)), np.zeros((rank, rank, channels))
    for i in range(nodes):
        total_v = total_v + v_hat[i]
        left, right = projected(w.w6, v_hat[i]), projected(w.w7, v_hat[i])
        for k in range(rank):
            for m in range(rank):
                for c in range(channels):
                    square[k, m, c] += left[k, c] * right[m, c]
    return ReleasedSums(
        size_scale(nodes) * w.after(total_s), size_scale(nodes) * projected(w.w5, total_v), size_scale(nodes) * square
    )


def released_psds_layer(
    s: Points, v: Points, before: ReleasedSums | None, w: ReleasedDeepSetWeights
) -> tuple[Points, Points, ReleasedSums]:
    """As described: sums accumulate; a third of three terms is added to v, a map of a product of four to s."""
    s_hat, v_hat = [layer_norm(x) for x in s], [unit_vectors(x) for x in v]
    rank, channels = v[0].shape
    now = released_sums(s, v_hat, w)
    if before is not None:
        now = ReleasedSums(before.s + now.s, before.v + now.v, before.square + now.square)
    trace = np.array([sum(now.square[k, k, c] for k in range(rank)) for c in range(channels)])
    new_s, new_v = [], []
    for i in range(len(s)):
        lengths = inner(projected(w.left, v_hat[i]), projected(w.right, v_hat[i]))
        mixed_s = s_hat[i] + w.gate_s(s_hat[i]) * lengths
        mixed_v = v_hat[i] + v_hat[i] * w.gate_v(s_hat[i])
        turned = np.zeros((rank, channels))
        for k in range(rank):
            for m in range(rank):
                for c in range(channels):
                    turned[m, c] += mixed_v[k, c] * now.square[k, m, c]
        terms = projected(w.w1, turned) + projected(w.w2, mixed_s * now.v) + projected(w.w3, now.s * mixed_v)
        new_v.append(v[i] + terms / 3)
        seen = w.of_trace(trace) * now.s * w.of_s(mixed_s) * w.of_v(inner(now.v, terms / 3))
        new_s.append(s[i] + w.update(seen))
    return new_s, new_v, now
