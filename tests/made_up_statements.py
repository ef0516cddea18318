"""Statements made up to test how statements are checked, in a file of their own: processes load it quickly."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pointset.paper.theorems.statement import Finding, Statement, holds_if


def true_check() -> Finding:
    import numpy as np

    return holds_if(abs(np.sqrt(2.0) ** 2 - 2) < 1e-12, "the square of √2 is 2", error=np.float64(4.4e-16), tried=1)


def false_check() -> Finding:
    import numpy as np

    slipped_through: dict[str, Any] = {"worst": float("inf"), "at": np.int64(7), "ok": np.bool_(False)}
    return holds_if(7 % 2 == 0, "7 is odd; 6 is even instead", **slipped_through)


def slow_check() -> Finding:
    time.sleep(0.5)
    return holds_if(True, "it took its time")


def threads_check() -> Finding:
    import torch

    return holds_if(torch.get_num_threads() == 1, "one thread")


def raising_check() -> Finding:
    raise ZeroDivisionError("nothing to divide by")


def dying_check() -> Finding:
    os._exit(3)


def endless_check() -> Finding:
    Path(f"started-{os.getpid()}").touch()
    time.sleep(120)
    return holds_if(True, "")


SLOW = Statement("Proposition 1.1", "Patience is rewarded.", slow_check)
TRUE = Statement("Theorem 1.2", "√2² = 2.", true_check)
FALSE = Statement("Theorem 2.1", "7 is even.", false_check)
THREADS = Statement("Theorem 2.2", "Workers compute on one thread.", threads_check)
RAISING = Statement("Lemma 3.1", "Everything can be divided.", raising_check)
DYING = Statement("Lemma 3.2", "Nobody dies.", dying_check)
ENDLESS = tuple(Statement(f"Theorem {number}", "It ends.", endless_check) for number in (1, 2))
UNSENDABLE = Statement("Theorem 9", "Functions without a name travel.", lambda: holds_if(True, "it was called"))
