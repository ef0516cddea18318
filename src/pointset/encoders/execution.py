"""How a model is run: which autocast is worth it, and why `torch.compile` changes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import torch

from pointset.errors import SpecError

Function = TypeVar("Function", bound=Callable[..., torch.Tensor])


def check_autocast(device: torch.device) -> None:
    """Refuse reduced precision on a CPU that only emulates it: there it is slower than float32.

    Measured with ``benchmarks/encoder_speed.py --bf16``.
    """
    if device.type == "cpu" and torch.is_autocast_enabled("cpu") and not has_bfloat16_products():
        raise SpecError(
            "got autocast on a CPU without bfloat16 products (AVX512-BF16 or AMX), where it is slower than float32; "
            "leave autocast out on this machine, or use a GPU"
        )


def has_bfloat16_products() -> bool:
    """Whether this CPU multiplies bfloat16 matrices itself."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def uncompiled(function: Function) -> Function:
    """The function as it is, also inside ``torch.compile``.

    Every batch brings other sizes (B, n, r), and each would be compiled anew: some twenty seconds for about a tenth of
    its time (``benchmarks/encoder_speed.py --compile``). So a compiled model runs as written.
    """
    dynamo = sys.modules.get("torch._dynamo")  # torch.compile has loaded it; otherwise it is not worth seconds
    if dynamo is None:
        return function
    disabled: Function = dynamo.disable(function)
    return disabled
