"""What a model begins with: node features → the first scalars; eigenpairs, edges and distances → the first vectors.

In the order of this file: :class:`NodeScalars`; functions f of the eigenvalues (Definition 3.2); weights of the pairs
of points from edge features and, for PST*, distances in space; and :class:`Coordinates`, which puts them together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointBatch, PointGroup
from pointset.encoders.buckets import Padding
from pointset.encoders.layers import MLP, ChannelLinear, ChannelNorm
from pointset.encoders.products import weighted_sums
from pointset.errors import SpecError
from pointset.native.program import Code, Program, Space, Symbol
from pointset.specs import Categories, Reals, Spec


def checked_features(features: Tensor | None, spec: Spec, name: str) -> Tensor:
    """The features (…, c) of a batch in the type that the spec asks for, or an error that says what it expects."""
    if features is None:
        raise SpecError(f"the model was made for {name}={spec}, but the graphs carry no such features")
    columns = 0 if spec is None else spec.width
    if features.dim() > 3:
        raise SpecError(f"{name} has more than one axis of columns; expected (rows, {columns}) for {spec}")
    if features.shape[-1] != columns:
        raise SpecError(f"{name} has {features.shape[-1]} columns; expected {columns} for {spec}")
    if isinstance(spec, Reals):
        return features
    if torch.compiler.is_exporting():  # an exported model has no Python that could look at numbers
        return features.long()
    if features.is_floating_point() and not bool((features == features.round()).all()):
        raise SpecError(f"{name} holds fractions; expected whole numbers for {spec}. Use Reals({columns})")
    features = features.long()
    if isinstance(spec, Categories) and features.numel():
        for column, size in enumerate(spec.sizes):
            low, high = int(features[..., column].min()), int(features[..., column].max())
            if low < 0 or high >= size:
                raise SpecError(
                    f"column {column} of {name} holds {low} to {high}; expected 0 to {size - 1} for {spec}. "
                    "Give the column more categories, or renumber it"
                )
    return features


class SumOfTables(nn.Module):
    """Categorical columns (…, c) → (d, …): the sum of one embedding for each column."""

    def __init__(self, sizes: Sequence[int], channels: int):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, channels) for size in sizes)

    def forward(self, features: Tensor) -> Tensor:
        """(…, c) whole numbers → (d, …)."""
        embedded = [table(features[..., column]) for column, table in enumerate(self.tables)]
        return torch.stack(embedded).sum(0).movedim(-1, 0)


class FeatureEmbedding(nn.Module):
    """Features as a spec describes them → d channels: categories by a sum of tables, reals by one linear map."""

    def __init__(self, spec: Spec, channels: int):
        super().__init__()
        self.spec, self.channels = spec, channels
        self.tables = SumOfTables(spec.sizes, channels) if isinstance(spec, Categories) else None
        self.linear = ChannelLinear(spec.width, channels) if isinstance(spec, Reals) else None

    def embedded(self, features: Tensor | None, name: str) -> Tensor:
        """(…, c) → (d, …)."""
        columns = checked_features(features, self.spec, name)
        if self.linear is not None:
            result: Tensor = self.linear(columns.to(self.linear.weight.dtype).movedim(-1, 0))
        elif self.tables is not None:
            result = self.tables(columns)
        else:
            raise SpecError(f"no embedding for {name} of {self.spec}")
        return result


class NodeScalars(FeatureEmbedding):
    """The first scalars s, (d, B, n).

    Categories: a sum of embedding tables, then LayerNorm; reals: one linear map; no features: one learned vector.
    """

    takes_padding = True

    def __init__(self, spec: Spec, channels: int):
        super().__init__(spec, channels)
        self.constant = nn.Parameter(torch.randn(channels)) if spec is None else None
        self.norm = ChannelNorm()

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n)."""
        if self.constant is not None:
            graphs, nodes, _ = group.shape
            return self.constant.view(-1, 1, 1).expand(-1, graphs, nodes)
        scalars = self.embedded(group.x, "node features x")
        normed: Tensor = scalars if self.tables is None else self.norm(scalars)
        return normed

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels: computed here, row by row."""
        return program.input(Space.NODES, self.channels, lambda flat: by_row(self(flat.rows)), differentiable=True)


class NodeReferences(FeatureEmbedding):
    """Σ_i w(x_i), what the nodes of a graph contribute by themselves: (G, out), added to the model's outputs.

    w adds up a number for each category of each column. The numbers are fitted to the training part, not learned by
    gradients (:mod:`pointset.training.references`); a model of energies then learns what binds the atoms.
    """

    weight: Tensor  # (out, Σ sizes)
    starts: Tensor  # (c,) of each column's categories among them

    def __init__(self, spec: Categories, outputs: int):
        super().__init__(None, outputs)
        self.spec = spec
        self.register_buffer("weight", torch.zeros(outputs, sum(spec.sizes)))
        self.register_buffer("starts", torch.tensor(spec.starts), persistent=False)

    def embedded(self, features: Tensor | None, name: str) -> Tensor:
        """(…, c) → (out, …)."""
        columns = checked_features(features, self.spec, name)
        return self.weight[:, columns + self.starts].sum(-1)

    def forward(self, points: PointBatch) -> Tensor:
        """(G, out) in input order."""
        of_nodes = self.embedded(points.x, "node features x")  # (out, N)
        counts = points.num_nodes[points.index]
        graphs = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
        sums = of_nodes.new_zeros(len(counts), len(of_nodes)).index_add(0, graphs, of_nodes.mT)
        return sums[points.graph_order]


def by_row(channels_first: Tensor) -> Tensor:
    """(d, …) → (rows, d)."""
    return channels_first.reshape(channels_first.shape[0], math.prod(channels_first.shape[1:])).mT


# Eigenvalue functions f: (B, r) → (d, B, r), equivariant to permutations of the eigenvalues (Definition 3.2). Those
# that take padding get it as a second argument; what they give in padded columns does not matter.


def signed_root(eigenvalues: Tensor) -> Tensor:
    """sgn(λ)·√|λ|; for a positive semi-definite matrix this is √λ."""
    return eigenvalues.sign() * eigenvalues.abs().sqrt()


class SquareRoot(nn.Module):
    """SRD: f(Λ) = √Λ in every one of d channels, each times a learned number.

    On a matrix with negative eigenvalues, half of the channels take √|λ| and half sgn(λ)√|λ|, the pair from which the
    proof of Theorem 3.3 recovers the matrix; on a positive semi-definite one both are √λ.
    """

    takes_padding = True

    def __init__(self, channels: int):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))

    def forward(self, eigenvalues: Tensor, padding: Padding | None = None) -> Tensor:
        """(B, r) → (d, B, r)."""
        signed = signed_root(eigenvalues)
        half = self.scale.shape[0] // 2
        plain = self.scale[:half, None, None] * signed.abs()
        return torch.cat([plain, self.scale[half:, None, None] * signed])

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels: a linear map of √|λ| and sgn(λ)√|λ|."""
        roots = program.input(Space.EIGENVALUES, 2, _both_roots, differentiable=False)
        return program.linear(roots, self._weight, outputs=len(self.scale))

    def _weight(self) -> Tensor:
        """(d, 2)."""
        first = torch.arange(len(self.scale)) < len(self.scale) // 2
        return torch.stack([self.scale * first, self.scale * ~first], dim=1)


def _both_roots(flat: Any) -> Tensor:
    signed = signed_root(flat.eigenvalues)
    return torch.stack([signed.abs(), signed], dim=1)


class DeepSetLayer(nn.Module):
    """x ← x + mean(MLP_a(x)) ⊙ MLP_b(x), the mean over the eigenvalues of a graph."""

    def __init__(self, channels: int):
        super().__init__()
        self.pooled = MLP([channels] * 3, norm="layer", tail=True)
        self.own = MLP([channels] * 3, norm="layer", tail=True)

    def forward(self, x: Tensor, padding: Padding | None = None) -> Tensor:
        """(d, B, r) → (d, B, r)."""
        pooled: Tensor = self.pooled(x)
        if isinstance(pooled, Symbol):
            return x + pooled.unary(Code.POOL, space=Space.GRAPH, flag=1) * self.own(x)
        # At rank 0 there is nothing to add up, and the sum of nothing is 0.
        if padding is None:
            mean = pooled.sum(-1, keepdim=True) / max(x.shape[-1], 1)
        else:
            mean = (pooled * padding.columns).sum(-1, keepdim=True) / padding.ranks.clamp(min=1)
        result: Tensor = x + mean * self.own(x)
        return result


class LearnedDeepSet(nn.Module):
    """PSRD: f learned as a DeepSet of d channels, the paper's choice (Section 3.2, Figure 3).

    √λ (signed) → MLP 1 → 2d → d → three layers x + mean(MLP_a(x)) ⊙ MLP_b(x), as in the released model.
    """

    takes_padding = True
    LAYERS = 3

    def __init__(self, channels: int):
        super().__init__()
        self.embedding = MLP([1, 2 * channels, channels], norm="layer", tail=True)
        self.layers = nn.Sequential(*(DeepSetLayer(channels) for _ in range(self.LAYERS)))

    def forward(self, eigenvalues: Tensor, padding: Padding | None = None) -> Tensor:
        """(B, r) → (d, B, r)."""
        x: Tensor = self.embedding(signed_root(eigenvalues).unsqueeze(0))
        for layer in self.layers:
            x = layer(x, padding)
        return x

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""

        def roots(flat: Any) -> Tensor:
            return signed_root(flat.eigenvalues).unsqueeze(1)

        x: Any = program.input(Space.EIGENVALUES, 1, roots, differentiable=False)
        recorded: Symbol = self.layers(self.embedding(x))
        return recorded


class LearnedFromRoot(nn.Module):
    """PSRD with a way past the DeepSet: f(Λ) = a ⊙ √Λ + DeepSet(Λ) with learned a of d channels.

    The inner products of a fresh model then contain entries of the matrix, in which edges can be seen; those of a
    random DeepSet alone are nearly a multiple of the identity. What the DeepSet alone can learn remains within reach.
    """

    takes_padding = True

    def __init__(self, channels: int):
        super().__init__()
        self.root, self.learned = SquareRoot(channels), LearnedDeepSet(channels)

    def forward(self, eigenvalues: Tensor, padding: Padding | None = None) -> Tensor:
        """(B, r) → (d, B, r)."""
        result: Tensor = self.root(eigenvalues) + self.learned(eigenvalues, padding)
        return result

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""
        return self.root.record(program) + self.learned.record(program)


class RootAndPolynomials(nn.Module):
    """PSRD for counting: f(Λ) = a ⊙ √Λ in half of the channels, a learned polynomial of degree 4 in Λ in the others.

    Inner products of the first kind are entries of the matrix, of the second entries of its powers up to the eighth,
    which are numbers of walks; a projection of both gives any such polynomial. Polynomials are sums of Chebyshev's on
    the interval [0, 12], where none is larger than 1; beyond, on graphs with larger degrees, they grow.
    """

    takes_padding = True

    def __init__(self, channels: int, degree: int = 4, interval: tuple[float, float] = (0.0, 12.0)):
        super().__init__()
        half = channels // 2
        self.root = SquareRoot(half)
        self.weights = nn.Parameter(torch.randn(channels - half, degree + 1) / math.sqrt(degree + 1))
        self.interval = interval

    def forward(self, eigenvalues: Tensor, padding: Padding | None = None) -> Tensor:
        """(B, r) → (d, B, r)."""
        return torch.cat([self.root(eigenvalues), torch.tensordot(self.weights, self._basis(eigenvalues), dims=1)])

    def _basis(self, eigenvalues: Tensor) -> Tensor:
        """Chebyshev's polynomials, (degree + 1, …)."""
        low, high = self.interval
        x = (2 * eigenvalues - (low + high)) / (high - low)
        basis = [torch.ones_like(x), x]
        while len(basis) < self.weights.shape[1]:
            basis.append(2 * x * basis[-1] - basis[-2])
        return torch.stack(basis[: self.weights.shape[1]])

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""

        def basis(flat: Any) -> Tensor:
            return self._basis(flat.eigenvalues).mT

        terms = program.input(Space.EIGENVALUES, self.weights.shape[1], basis, differentiable=False)
        return program.stacked([self.root.record(program), terms.linear(self.weights)])


class RootAndWalks(RootAndPolynomials):
    """f for the normalised adjacency matrix, |λ| ≤ 1: √Λ in half of the channels, polynomials of degree 6 in the rest.

    Inner products of the latter are probabilities of random walks of up to 12 steps between two nodes, times the root
    of the ratio of their degrees.
    """

    takes_padding = True

    def __init__(self, channels: int):
        super().__init__(channels, degree=6, interval=(-1.0, 1.0))


class PairWeights(FeatureEmbedding, ABC):
    """e_ij (d, B, n, n) from the edge features of a group, 0 where there is no edge; for PST* also from distances."""

    def __init__(self, spec: Spec, channels: int, distances: nn.Module | None):
        super().__init__(spec, channels)
        self.distances = distances

    @abstractmethod
    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""

    @abstractmethod
    def record_sums(self, program: Program, v: Symbol, base: Symbol | None) -> Symbol:
        """base_i + Σ_j e_ij ⊙ v_j for the native kernels."""

    def record_edges(self, program: Program) -> Symbol:
        """Each edge's embedding."""
        return program.input(
            Space.EDGES, self.channels, lambda flat: by_row(self.by_edge(flat.rows)), differentiable=True
        )

    def by_edge(self, group: PointGroup) -> Tensor:
        """(d, M): each edge's embedding, in the order of the group's edges."""
        return self.embedded(group.edge_attr, "edge features edge_attr")

    def of_edges(self, group: PointGroup, elsewhere: Tensor | None = None) -> Tensor:
        """(d, B, n, n) with each edge's embedding, and ``elsewhere`` (d,) or 0 at all other pairs."""
        by_edge = self.by_edge(group)
        empty = by_edge.new_zeros(self.channels, 1) if elsewhere is None else elsewhere.unsqueeze(-1)
        return group.of_pairs(by_edge, empty)


class EdgeWeights(PairWeights):
    """An edge's embedding, zero elsewhere; with distances w_ij, every pair weighs w_ij ⊙ (1 + e_ij)."""

    takes_padding = True

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        if self.distances is None:
            return self.of_edges(group)
        near: Tensor = self.distances(group)
        return near if self.spec is None else near * (1 + self.of_edges(group))

    def record_sums(self, program: Program, v: Symbol, base: Symbol | None) -> Symbol:
        """base_i + Σ_j e_ij ⊙ v_j for the native kernels; without distances over the edges alone."""
        if self.distances is None:
            return program.record(Code.EDGE_SUMS, [self.record_edges(program), v, base], v.space, v.width)
        weights = record_distances(self.distances, program)
        if self.spec is not None:
            edges = record_pairs(program, self.record_edges(program), None)
            weights = program.record(Code.MULTIPLY, [weights, edges], Space.PAIRS, self.channels, 1.0)
        return plain_sums(weights, v, base)


def record_pairs(program: Program, edges: Symbol, elsewhere: Symbol | None) -> Symbol:
    """For every pair what stands at its edge, or else ``elsewhere``."""
    return program.record(Code.EDGE_PAIRS, [edges, elsewhere], Space.PAIRS, edges.width, 1.0)


def record_distances(distances: nn.Module, program: Program) -> Symbol:
    """Weights of all pairs by their distance."""
    recorded: Symbol = distances.record(program)  # type: ignore[operator]
    return recorded


def plain_sums(weights: Symbol, v: Symbol, base: Symbol | None) -> Symbol:
    """base_i + Σ_j weights_ij ⊙ v_j."""
    return v.program.record(Code.SUMS, [weights, v, base], v.space, v.width, 1.0, 1)


class RadialDistances(nn.Module):
    """|p_i − p_j| → radial basis functions (Gaussians at equal steps up to ``reach``) → MLP → (d, B, n, n)."""

    takes_padding = True

    def __init__(self, channels: int, functions: int = 32, reach: float = 12.0):
        super().__init__()
        self.mlp = MLP([functions, channels, channels], tail=True)
        self.centres: Tensor
        self.register_buffer("centres", torch.linspace(0, reach, functions), persistent=False)
        self.width = reach / functions

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n, n)."""
        weights: Tensor = self.mlp(self._functions(distances(group)))
        return weights

    def _functions(self, distance: Tensor) -> Tensor:
        """(…) → (functions, …)."""
        offset = distance.to(self.centres.dtype) - self.centres.view(-1, *[1] * distance.dim())
        return torch.exp(-((offset / self.width) ** 2))

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""

        def functions(flat: Any) -> Tensor:
            return by_row(self._functions(distances_of_pairs(flat)))

        x: Any = program.input(Space.PAIRS, len(self.centres), functions, differentiable=True)
        recorded: Symbol = self.mlp(x)
        return recorded


def distances(group: PointGroup) -> Tensor:
    """|p_i − p_j|, (B, n, n)."""
    if group.pos is None:
        raise SpecError("the model uses 3D positions (PST*), but the graphs carry no pos")
    return _length(group.pos.unsqueeze(2) - group.pos.unsqueeze(1))


def distances_of_pairs(flat: Any, *, unordered: bool = False) -> Tensor:
    """|p_i − p_j| of all pairs of all graphs of a flat batch, (Σ n²,); or of the pairs i ≤ j, (Σ n(n + 1)/2,)."""
    pos = flat.rows.pos
    if pos is None:
        raise SpecError("the model uses 3D positions (PST*), but the graphs carry no pos")
    n = flat.graphs.num_nodes
    own = torch.repeat_interleave(torch.repeat_interleave(n, n))  # (Σ n²,) the node i of each pair
    other = torch.arange(len(own)) - torch.repeat_interleave(torch.cumsum(n * n, 0) - n * n, n * n)
    first = torch.repeat_interleave(torch.cumsum(n, 0) - n, n * n)
    other = first + other % torch.repeat_interleave(n, n * n)
    if unordered:
        wanted = other >= own
        own, other = own[wanted], other[wanted]
    return _length(pos[0, own] - pos[0, other])


def _length(difference: Tensor) -> Tensor:
    """(…, 3) → (…)."""
    square = difference.square().sum(-1)
    # Twice the same point has distance 0, where the root's gradients are infinite: it is taken elsewhere only.
    apart = square > 0
    return torch.where(apart, torch.where(apart, square, 1.0).sqrt(), 0.0)


class Coordinates(nn.Module):
    """The first vectors v, (d, B, n, r): PSRD v_i = U_i ⊙ f(Λ), plus Σ_j e_ij ⊙ v_j where pairs have weights.

    Equivariant to O(r): weights of pairs only combine points. ``noise`` is the paper's gn: in training only, Gaussian
    noise of this size on √Λ and U, from the generator that is handed in.
    """

    takes_padding = True

    def __init__(self, function: nn.Module, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__()
        self.function, self.pairs, self.noise = function, pairs, noise

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n, r)."""
        values, vectors = self._eigenpairs(group, generator)
        v: Tensor = vectors.unsqueeze(0) * self._by_channel(values, group)
        if self.pairs is None:
            return v
        sums = weighted_sums(self.pairs(group), v)
        # Pairs may have weights in padded rows, too, where the vectors are zero.
        return v + sums if group.padding is None else torch.addcmul(v, sums, group.padding.rows.unsqueeze(-1))

    def _by_channel(self, values: Tensor, group: PointGroup) -> Tensor:
        """f(Λ), (d, B, 1, r)."""
        of_values: Tensor = self.function(values, *([] if group.padding is None else [group.padding]))
        return of_values.unsqueeze(2)

    def record(self, program: Program) -> Symbol:
        """The same for the native kernels."""
        v = self._record_points(program)
        return v if self.pairs is None else self.pairs.record_sums(program, v, v)

    def _record_points(self, program: Program) -> Symbol:
        """U_i ⊙ f(Λ)."""
        of_values: Symbol = self.function.record(program)  # type: ignore[operator]
        return of_values.unary(Code.POINTS, space=Space.VECTORS)

    def _eigenpairs(self, group: PointGroup, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        values, vectors = self.eigenpairs(group.eigenvalues, group.eigenvectors, generator)
        if group.padding is not None and vectors is not group.eigenvectors:
            vectors = vectors * group.padding.rows.unsqueeze(-1) * group.padding.columns.unsqueeze(-2)
        return values, vectors

    def eigenpairs(self, values: Tensor, vectors: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """Eigenvalues and eigenvectors of any shapes, with noise in training."""
        if not (self.training and self.noise > 0):
            return values, vectors
        if generator is None:
            raise SpecError(
                f"the model adds noise of size {self.noise} in training and was called without a generator; call "
                "model(batch, generator=torch.Generator().manual_seed(…)), or model.eval() for no noise"
            )

        def noise(x: Tensor) -> Tensor:
            drawn = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
            return self.noise * drawn.to(x.device)

        roots = signed_root(values) + noise(values)  # as the released model: the noise is on √λ
        return roots * roots.abs(), vectors + noise(vectors)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"noise={self.noise}"
