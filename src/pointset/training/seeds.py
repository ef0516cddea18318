"""Independent random streams from one seed.

Everything random in a run is drawn from a stream named by its purpose and its place (epoch, batch, device). So a run
that is taken up in the middle draws what it would have drawn unbroken, and no state of a generator is ever stored.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of every run's result and never change."""

    WEIGHTS = 0
    ORDER = 1
    NOISE = 2


def stream_seed(seed: int, purpose: Purpose, *place: int) -> int:
    """A 63-bit seed for this purpose and place."""
    state = np.random.SeedSequence([seed, purpose, *place]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def stream(seed: int, purpose: Purpose, *place: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator at the beginning of a stream."""
    return torch.Generator(device).manual_seed(stream_seed(seed, purpose, *place))
