"""Where the console script begins: Ctrl-C ends it quietly also while the commands are still being imported."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def run() -> None:
    """Import the commands and run the one that was asked for."""
    try:
        from pointset.cli import main
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    main.run()
