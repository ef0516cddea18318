"""Node features → the first scalars; eigenpairs, edges and distances → the first vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pointset.encoders.batch import PointGroup
from pointset.encoders.eigenvalues import signed_root
from pointset.encoders.feature_columns import checked
from pointset.encoders.layers import ChannelLinear, ChannelNorm
from pointset.encoders.pairs import PairWeights, SumOfTables
from pointset.encoders.products import weighted_sums
from pointset.errors import SpecError
from pointset.specs import Categories, Reals, Spec


class NodeScalars(nn.Module):
    """The first scalars s, (d, B, n).

    Categories: a sum of embedding tables, then LayerNorm; reals: one linear map; no features: one learned vector.
    """

    def __init__(self, spec: Spec, channels: int):
        super().__init__()
        self.spec = spec
        self.tables = SumOfTables(spec.sizes, channels) if isinstance(spec, Categories) else None
        self.linear = ChannelLinear(spec.width, channels) if isinstance(spec, Reals) else None
        self.constant = nn.Parameter(torch.randn(channels)) if spec is None else None
        self.norm = ChannelNorm()

    def forward(self, group: PointGroup) -> Tensor:
        """Group → (d, B, n)."""
        if self.constant is not None:
            graphs, nodes, _ = group.size
            return self.constant.view(-1, 1, 1).expand(-1, graphs, nodes)
        features = checked(group.x, self.spec, "node features x")
        if self.linear is not None:
            by_column = features.to(self.linear.weight.dtype).movedim(-1, 0)
            linear: Tensor = self.linear(by_column)
            return linear
        if self.tables is None:
            raise SpecError(f"no embedding for {self.spec}")
        scalars: Tensor = self.norm(self.tables(features))
        return scalars


class Coordinates(nn.Module):
    """The first vectors v, (d, B, n, r): PSRD v_i = U_i ⊙ f(Λ), plus Σ_j e_ij ⊙ v_j where pairs have weights.

    Equivariant to O(r): weights of pairs only combine points. ``noise`` is the paper's gn: in training only, Gaussian
    noise of this size on √Λ and U, from the generator that is handed in.
    """

    def __init__(self, function: nn.Module, pairs: PairWeights | None = None, *, noise: float = 0.0):
        super().__init__()
        self.function, self.pairs, self.noise = function, pairs, noise

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n, r)."""
        values, vectors = self._eigenpairs(group, generator)
        v: Tensor = vectors.unsqueeze(0) * self.function(values).unsqueeze(2)
        return v if self.pairs is None else v + weighted_sums(self.pairs(group), v)

    def _eigenpairs(self, group: PointGroup, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        values, vectors = group.eigenvalues, group.eigenvectors
        if not (self.training and self.noise > 0):
            return values, vectors
        if generator is None:
            raise SpecError(
                f"the model adds noise of size {self.noise} in training and was called without a generator; call "
                "model(batch, generator=torch.Generator().manual_seed(…)), or model.eval() for no noise"
            )

        def noisy(x: Tensor) -> Tensor:
            noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=generator.device)
            return x + self.noise * noise.to(x.device)

        roots = noisy(signed_root(values))  # as the released model: the noise is on √λ
        return roots * roots.abs(), noisy(vectors)

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"noise={self.noise}"


class ReleasedCoordinates(Coordinates):
    """As the released model: weighted sums of eigenvectors replace them, v_i = (Σ_j e_ij U_j) ⊙ f(Λ)."""

    def forward(self, group: PointGroup, generator: torch.Generator | None = None) -> Tensor:
        """Group → (d, B, n, r)."""
        values, vectors = self._eigenpairs(group, generator)
        by_channel: Tensor = self.function(values).unsqueeze(2)  # (d, B, 1, r)
        if self.pairs is None:
            return vectors.unsqueeze(0) * by_channel
        weights = self.pairs(group)
        return weighted_sums(weights, vectors.expand(weights.shape[0], *vectors.shape)) * by_channel
