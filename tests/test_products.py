"""The heavy products: value and gradient against the plain PyTorch expression, also where tensors are empty or zero."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.nn.functional import silu

from pointset.encoders.products import (
    attended,
    normalised_vectors,
    pair_mlp,
    pair_products,
    projected_products,
    row_products,
    weighted_sums,
)

FLOOR = 1e-3
SCALE = 0.37
Size = tuple[int, int, int, int]
Outputs = Tensor | tuple[Tensor, ...]
Arguments = dict[str, Tensor]

# (d, B, n, r): ordinary, one graph, one node, rank 0, one channel, no nodes.
SIZES: list[Size] = [(3, 2, 4, 3), (2, 1, 3, 2), (3, 2, 1, 2), (3, 2, 4, 0), (1, 2, 3, 2), (2, 1, 0, 0), (2, 3, 1, 0)]


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# The plain expressions, each with the arguments of the function that it stands for.


def plain_normalised(v: Tensor) -> Tensor:
    centred = v - v.mean(0, keepdim=True)
    return centred / centred.square().sum(-1, keepdim=True).clamp(min=FLOOR**2).sqrt()


def plain_projected(projected: Tensor, query_s: Tensor | None = None, key_s: Tensor | None = None) -> Outputs:
    query, key, left, right = projected.chunk(4)
    pairs = torch.einsum("dbir,dbjr->dbij", query, key)
    if query_s is not None and key_s is not None:
        pairs = torch.cat([torch.einsum("dbi,dbj->dbij", query_s, key_s), pairs])
    return pairs, (left * right).sum(-1)


def plain_pairs(projected: Tensor, query_s: Tensor, key_s: Tensor) -> Tensor:
    query, key = projected.chunk(2)
    inner = torch.einsum("dbir,dbjr->dbij", query, key)
    return torch.cat([torch.einsum("dbi,dbj->dbij", query_s, key_s), inner])


def plain_rows(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(-1)


def plain_mlp(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    hidden = silu(torch.einsum("dc,cbij->dbij", weight1, x) + bias1.view(-1, 1, 1, 1))
    return torch.einsum("ed,dbij->ebij", weight2, hidden) + bias2.view(-1, 1, 1, 1)


def plain_attended(
    attention: Tensor, values_s: Tensor, values_v: Tensor, s: Tensor, v: Tensor, scale: Tensor | None = None
) -> Outputs:
    scale = torch.tensor([[SCALE]], dtype=s.dtype) if scale is None else scale
    return (
        s + scale * torch.einsum("dbij,dbj->dbi", attention, values_s),
        v + scale.unsqueeze(-1) * torch.einsum("dbij,dbjr->dbir", attention, values_v),
    )


def scale_of_points(s: Tensor) -> Tensor:
    """(B, n), zero at the last point of each graph."""
    scale = torch.linspace(0.2, 1.0, s[0].numel()).to(s.dtype).view_as(s[0]).clone()
    scale[:, -1:] = 0
    return scale


def plain_attended_scalars(attention: Tensor, values_s: Tensor, s: Tensor, v: Tensor) -> Outputs:
    return s + SCALE * torch.einsum("dbij,dbj->dbi", attention, values_s), v * 1


def plain_sums(weights: Tensor, values: Tensor) -> Tensor:
    return torch.einsum("dbij,dbjk->dbik", weights, values)


class Case:
    """A function, its plain expression, and its arguments for a size (d, B, n, r)."""

    def __init__(
        self, function: Callable[..., Outputs], plain: Callable[..., Outputs], arguments: Callable[..., Arguments]
    ):
        self.function, self.plain, self.arguments = function, plain, arguments


def mlp_arguments(d: int, b: int, n: int, _r: int) -> Arguments:
    return {
        "x": drawn(2 * d, b, n, n),
        "weight1": drawn(d, 2 * d),
        "bias1": drawn(d),
        "weight2": drawn(d, d),
        "bias2": drawn(d),
    }


def attended_arguments(d: int, b: int, n: int, r: int) -> Arguments:
    return {
        "attention": drawn(d, b, n, n),
        "values_s": drawn(d, b, n),
        "values_v": drawn(d, b, n, r),
        "s": drawn(d, b, n),
        "v": drawn(d, b, n, r),
    }


CASES = {
    "normalised_vectors": Case(
        lambda v: normalised_vectors(v, FLOOR), plain_normalised, lambda d, b, n, r: {"v": drawn(d, b, n, r)}
    ),
    "projected_products": Case(
        projected_products, plain_projected, lambda d, b, n, r: {"projected": drawn(4 * d, b, n, r)}
    ),
    "projected_products with scalars": Case(
        projected_products,
        plain_projected,
        lambda d, b, n, r: {
            "projected": drawn(4 * d, b, n, r),
            "query_s": drawn(d, b, n),
            "key_s": drawn(d, b, n),
        },
    ),
    "pair_products": Case(
        pair_products,
        plain_pairs,
        lambda d, b, n, r: {
            "projected": drawn(2 * d, b, n, r),
            "query_s": drawn(d, b, n),
            "key_s": drawn(d, b, n),
        },
    ),
    "row_products": Case(
        row_products, plain_rows, lambda d, b, n, r: {"left": drawn(d, b, n, r), "right": drawn(d, b, n, r)}
    ),
    "pair_mlp": Case(lambda **tensors: pair_mlp(**tensors, tail=False), plain_mlp, mlp_arguments),
    "pair_mlp with tail": Case(
        lambda **tensors: pair_mlp(**tensors, tail=True), lambda **tensors: silu(plain_mlp(**tensors)), mlp_arguments
    ),
    "attended": Case(
        lambda **tensors: attended(**tensors, scale=SCALE),
        plain_attended,
        attended_arguments,
    ),
    "attended, scalars only": Case(
        lambda **tensors: attended(**tensors, values_v=None, scale=SCALE),
        plain_attended_scalars,
        lambda d, b, n, r: {
            "attention": drawn(d, b, n, n),
            "values_s": drawn(d, b, n),
            "s": drawn(d, b, n),
            "v": drawn(d, b, n, r),
        },
    ),
    "attended, a scale for each point": Case(
        lambda **tensors: attended(**tensors, scale=scale_of_points(tensors["s"])),
        lambda **tensors: plain_attended(**tensors, scale=scale_of_points(tensors["s"])),
        attended_arguments,
    ),
    "weighted_sums": Case(
        weighted_sums, plain_sums, lambda d, b, n, r: {"weights": drawn(d, b, n, n), "values": drawn(d, b, n, r)}
    ),
}


def value_and_gradients(function: Callable[..., Outputs], arguments: Arguments) -> tuple[list[Tensor], list[Tensor]]:
    """Values, and the gradients of a random combination of all values (the same for each call)."""
    outputs = function(**arguments)
    values = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    generator = torch.Generator().manual_seed(1)
    total = sum((value * torch.randn(value.shape, generator=generator).to(value)).sum() for value in values)
    assert isinstance(total, Tensor)
    return [value.detach() for value in values], list(torch.autograd.grad(total, list(arguments.values())))


def assert_same(case: Case, arguments: Arguments) -> None:
    got, expected = value_and_gradients(case.function, arguments), value_and_gradients(case.plain, arguments)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", CASES)
class TestEveryProduct:
    def test_value_and_gradient_are_those_of_the_plain_expression(self, name: str, size: Size) -> None:
        torch.manual_seed(0)
        assert_same(CASES[name], CASES[name].arguments(*size))

    def test_gradient_is_the_derivative(self, name: str, size: Size) -> None:
        torch.manual_seed(0)
        arguments = CASES[name].arguments(*size)

        def by_position(*tensors: Tensor) -> Outputs:
            return CASES[name].function(**dict(zip(arguments, tensors, strict=True)))

        assert gradcheck(by_position, tuple(arguments.values()))

    def test_strides_do_not_matter(self, name: str, size: Size) -> None:
        torch.manual_seed(0)
        arguments = {
            key: tensor.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_()
            for key, tensor in CASES[name].arguments(*size).items()
        }
        assert_same(CASES[name], arguments)

    def test_inputs_stay_as_they_are(self, name: str, size: Size) -> None:
        torch.manual_seed(0)
        arguments = CASES[name].arguments(*size)
        before = {key: tensor.detach().clone() for key, tensor in arguments.items()}
        value_and_gradients(CASES[name].function, arguments)
        assert all(torch.equal(tensor.detach(), before[key]) for key, tensor in arguments.items())


@pytest.mark.parametrize("name", CASES)
def test_gradient_of_one_argument_alone(name: str) -> None:
    """The other arguments are constants: nothing may fail, and the gradient is the same."""
    torch.manual_seed(0)
    arguments = CASES[name].arguments(3, 2, 4, 3)
    _, together = value_and_gradients(CASES[name].function, arguments)
    for position, key in enumerate(arguments):
        one = {other: tensor.detach().requires_grad_(other == key) for other, tensor in arguments.items()}
        outputs = CASES[name].function(**one)
        values = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        generator = torch.Generator().manual_seed(1)
        weights = [torch.randn(value.shape, generator=generator).to(value) for value in values]
        total = sum((value * weight).sum() for value, weight in zip(values, weights, strict=True))
        assert isinstance(total, Tensor)
        torch.testing.assert_close(torch.autograd.grad(total, one[key])[0], together[position])


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("name", ["projected_products", "projected_products with scalars", "attended"])
def test_an_output_that_is_not_used_has_no_gradient(name: str, used: int) -> None:
    torch.manual_seed(0)
    arguments = CASES[name].arguments(3, 2, 4, 3)
    got, expected = (
        torch.autograd.grad(
            function(**arguments)[used].sum(), list(arguments.values()), allow_unused=True, materialize_grads=True
        )
        for function in (CASES[name].function, CASES[name].plain)
    )
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(2, 2, 2, 2), (2, 1, 1, 0)], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradient_of_the_gradient_is_its_derivative(name: str, size: Size) -> None:
    torch.manual_seed(0)
    arguments = CASES[name].arguments(*size)

    def by_position(*tensors: Tensor) -> Outputs:
        return CASES[name].function(**dict(zip(arguments, tensors, strict=True)))

    assert gradgradcheck(by_position, tuple(arguments.values()))


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_where_arguments_depend_on_each_other(name: str) -> None:
    """All arguments are functions of one number, and one argument is a function of another."""
    torch.manual_seed(0)
    arguments = CASES[name].arguments(3, 2, 4, 3)

    def second(function: Callable[..., Outputs]) -> Tensor:
        one = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        scaled, sum_before = {}, one
        for key, tensor in arguments.items():
            scaled[key] = tensor.detach() * sum_before
            sum_before = sum_before + scaled[key].square().mean()
        outputs = function(**scaled)
        values = [outputs] if isinstance(outputs, Tensor) else list(outputs)
        cubes = torch.cat([value.flatten() ** 3 for value in values])
        (slope,) = torch.autograd.grad(cubes.sum(), one, create_graph=True)
        return torch.autograd.grad(slope, one)[0]

    torch.testing.assert_close(second(CASES[name].function), second(CASES[name].plain), rtol=1e-10, atol=1e-10)


class TestNormalisedVectors:
    def test_lengths_are_one(self) -> None:
        torch.manual_seed(0)
        lengths = normalised_vectors(drawn(4, 2, 5, 3), FLOOR).norm(dim=-1)
        torch.testing.assert_close(lengths, torch.ones_like(lengths), rtol=1e-13, atol=0)

    def test_a_vector_by_hand(self) -> None:
        v = torch.tensor([[4.0, 3.0], [-2.0, -5.0]], dtype=torch.float64).view(2, 1, 1, 2)  # mean (1, −1)
        result = normalised_vectors(v, FLOOR).view(2, 2)
        torch.testing.assert_close(result, torch.tensor([[0.6, 0.8], [-0.6, -0.8]], dtype=torch.float64))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_zero_vectors_stay_zero_and_have_a_finite_gradient(self, dtype: torch.dtype) -> None:
        v = torch.zeros(3, 2, 4, 3, dtype=dtype, requires_grad=True)
        result = normalised_vectors(v, FLOOR)
        assert bool((result == 0).all())
        assert bool(torch.autograd.grad(result.sum(), v)[0].isfinite().all())

    def test_equal_channels_count_as_zero(self) -> None:
        v = torch.ones(3, 1, 2, 2, dtype=torch.float64, requires_grad=True)
        result = normalised_vectors(v, FLOOR)
        assert bool((result == 0).all())
        assert bool(torch.autograd.grad(result.sum(), v)[0].isfinite().all())

    @pytest.mark.parametrize("size", [0.0, 1e-12, 0.1 * FLOOR, 0.4 * FLOOR])
    def test_below_the_floor_it_is_a_division_by_the_floor(self, size: float) -> None:
        torch.manual_seed(0)
        direction = torch.nn.functional.normalize(torch.randn(3, 2, 4, 3, dtype=torch.float64), dim=-1)
        v = (size * direction).requires_grad_()
        centred = (v - v.mean(0, keepdim=True)).detach()
        torch.testing.assert_close(normalised_vectors(v, FLOOR), centred / FLOOR, rtol=1e-12, atol=0)
        assert_same(CASES["normalised_vectors"], {"v": v})

    def test_some_above_and_some_below_the_floor(self) -> None:
        torch.manual_seed(0)
        v = (
            torch.randn(4, 2, 5, 3, dtype=torch.float64) * torch.logspace(-8, 1, 5, dtype=torch.float64)[:, None]
        ).requires_grad_()
        assert_same(CASES["normalised_vectors"], {"v": v})

    @pytest.mark.parametrize("size", [1e-30, 1e30])
    def test_extreme_lengths_in_float32(self, size: float) -> None:
        torch.manual_seed(0)
        v = (size * torch.randn(3, 1, 4, 3)).requires_grad_()
        result = normalised_vectors(v, FLOOR)
        assert bool(result.isfinite().all()) and bool(torch.autograd.grad(result.sum(), v)[0].isfinite().all())


@pytest.mark.parametrize("name", CASES)
def test_zeros_everywhere_give_finite_gradients(name: str) -> None:
    arguments = {
        key: torch.zeros_like(tensor).requires_grad_() for key, tensor in CASES[name].arguments(3, 2, 4, 3).items()
    }
    values, gradients = value_and_gradients(CASES[name].function, arguments)
    assert all(bool(tensor.isfinite().all()) for tensor in [*values, *gradients])


@pytest.mark.parametrize("name", CASES)
def test_float32_is_near_float64(name: str) -> None:
    torch.manual_seed(0)
    arguments = CASES[name].arguments(3, 2, 4, 3)
    single = {key: tensor.detach().float().requires_grad_() for key, tensor in arguments.items()}
    got, expected = (value_and_gradients(CASES[name].function, tensors) for tensors in (single, arguments))
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5, check_dtype=False)


def test_mixed_precision_comes_back_in_the_type_of_the_residual() -> None:
    """Under autocast the pair MLP gives bfloat16, and the sums over it are added to float32."""
    torch.manual_seed(0)
    single = {key: tensor.detach().float().requires_grad_() for key, tensor in mlp_arguments(3, 2, 4, 3).items()}
    s, v, values_s, values_v = (
        torch.randn(shape, requires_grad=True) for shape in ((3, 2, 4), (3, 2, 4, 3), (3, 2, 4), (3, 2, 4, 3))
    )
    with torch.autocast("cpu", torch.bfloat16):
        attention = pair_mlp(**single, tail=False)
        got_s, got_v = attended(attention, values_s, values_v, s, v, SCALE)
    assert (attention.dtype, got_s.dtype, got_v.dtype) == (torch.bfloat16, torch.float32, torch.float32)
    exact = pair_mlp(**single, tail=False)
    expected_s, expected_v = attended(exact, values_s, values_v, s, v, SCALE)
    torch.testing.assert_close((got_s, got_v), (expected_s, expected_v), rtol=0.1, atol=0.1)
    gradients = torch.autograd.grad(got_s.sum() + got_v.sum(), [s, v, values_s, values_v, *single.values()])
    assert all(gradient.dtype == torch.float32 for gradient in gradients)
