"""Where the console script begins: Ctrl-C ends it quietly also while the verbs are still being imported."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def run() -> None:
    """Import the verbs and run the one that was asked for."""
    try:
        from pointset.cli.main import run as run_verb
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run_verb()
