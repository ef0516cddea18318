"""Where a run computes: device, precision, number of processes and of threads (Fabric).

One process, two processes on one machine (``devices=2``) and many machines (``torchrun``) run the same code.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from pointset.encoders.model import has_bfloat16_products
from pointset.errors import SpecError
from pointset.machine import cores
from pointset.runs.recipe import Recipe

if TYPE_CHECKING:
    from lightning_fabric import Fabric


_PRECISION = {"32": "32-true", "64": "64-true", "bf16": "bf16-mixed"}
DTYPES = {"32": torch.float32, "64": torch.float64, "bf16": torch.float32}


def make_fabric(recipe: Recipe, device: str = "auto") -> Fabric:
    """Fabric for this recipe: one process, or under ``torchrun`` as many as it has started."""
    accelerator = check_device(device, recipe.trainer.precision)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Lightning's advice at import is not for users of a command
        from lightning_fabric import Fabric

        logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
        precision: Any = _PRECISION[recipe.trainer.precision]
        if not torch.distributed.is_torchelastic_launched():
            return Fabric(accelerator=accelerator, devices=1, precision=precision)
        local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        nodes = int(os.environ.get("WORLD_SIZE", "1")) // local
        return Fabric(accelerator=accelerator, devices=local, num_nodes=nodes, strategy="ddp", precision=precision)


def check_device(device: str, precision: str) -> str:
    """``cpu`` or ``cuda``, the latter for "auto" where there is one; what this machine cannot do is refused."""
    if device not in ("auto", "cpu", "cuda"):
        raise SpecError(f"got device {device!r}; expected cpu, cuda or auto")
    if device == "cuda" and not torch.cuda.is_available():
        raise SpecError("got device 'cuda', but this machine has no CUDA device that torch can use; use --device cpu")
    chosen = "cuda" if device == "cuda" or (device == "auto" and torch.cuda.is_available()) else "cpu"
    if precision == "bf16" and chosen == "cpu" and not has_bfloat16_products():
        raise SpecError(
            "got trainer.precision=bf16 on a CPU without bfloat16 products, where it is slower than float32; use "
            "trainer.precision=32"
        )
    return chosen


def is_first_process() -> bool:
    """Whether this process speaks and writes; under ``torchrun`` one of them does."""
    return os.environ.get("RANK", "0") == "0"


def threads_for(recipe: Recipe, processes: int) -> int:
    """Threads of each process on this machine: together no more than cores, else they fight and all is much slower."""
    return recipe.trainer.threads or max(1, cores() // max(1, processes))


@contextmanager
def thread_count(threads: int) -> Iterator[None]:
    """Compute on so many threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
