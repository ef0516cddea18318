"""``python -m pointset``: the same as the command ``pointset``, where the folder of scripts is not on the path."""

from __future__ import annotations

from pointset.cli.entry import run

if __name__ == "__main__":
    run()
