"""The fast way through the released model is the same function as its layers, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pointset.encoders import released_fast
from pointset.encoders.layers import PointState
from pointset.encoders.released import ReleasedPST

# channels, layers, graphs, nodes, rank
SIZES = [(8, 3, 5, 6, 4), (16, 1, 3, 4, 3), (12, 2, 2, 5, 5), (8, 2, 2, 3, 0), (8, 2, 1, 1, 0), (4, 2, 0, 3, 2)]


def results(encoder: ReleasedPST, state: PointState, fast: bool) -> list[Tensor]:
    """Scalars after the last layer, and the gradients of a random function of them."""
    encoder.fast = fast
    inputs = PointState(*(part.clone().requires_grad_() for part in state))
    target = torch.randn(state.s.shape, dtype=state.s.dtype, generator=torch.Generator().manual_seed(1))
    output = encoder(inputs).s
    wanted = [*inputs, *encoder.parameters()]
    return [output.detach(), *torch.autograd.grad((output * target).sum(), wanted)]


def random_state(channels: int, graphs: int, nodes: int, rank: int, dtype: torch.dtype) -> PointState:
    """Random scalars and vectors, among them a zero vector and one below the floor of the normalisation."""
    generator = torch.Generator().manual_seed(0)
    s = torch.randn(channels, graphs, nodes, generator=generator, dtype=dtype)
    v = torch.randn(channels, graphs, nodes, rank, generator=generator, dtype=dtype)
    v[:, :1, 0] = 0
    v[:, :1, -1] *= 1e-5
    return PointState(s, v)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_fast_way_equals_the_layers(size: tuple[int, int, int, int, int], dtype: torch.dtype, tolerance: float) -> None:
    channels, layers, graphs, nodes, rank = size
    torch.manual_seed(0)
    encoder = ReleasedPST(channels, layers).to(dtype)
    state = random_state(channels, graphs, nodes, rank, dtype)
    for got, expected in zip(results(encoder, state, True), results(encoder, state, False), strict=True):
        scale = float(expected.abs().max()) if expected.numel() else 0.0
        torch.testing.assert_close(got, expected, rtol=0, atol=tolerance * max(scale, 1e-3))


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    encoder, state = ReleasedPST(8, 3).double(), random_state(8, 7, 5, 4, torch.float64)
    whole = results(encoder, state, True)
    monkeypatch.setattr(released_fast, "_PIECE_BYTES", 2 * 4 * 8 * 5 * 5)  # two graphs in a piece, seven in the group
    assert released_fast.piece_size(8, 5, 4) == 2
    for got, expected in zip(results(encoder, state, True), whole, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
