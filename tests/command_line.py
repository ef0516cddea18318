"""Commands as a user types them, in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from pointset.cli.main import app


def invoke(*words: Any, code: int = 0) -> tuple[str, str]:
    """stdout, and stderr on one line, of a command that must end with this exit code."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, f"{result.exit_code}: {result.output} {result.exception!r}"
    return result.stdout, _on_one_line(result.stderr)


def ended(*words: Any) -> tuple[int, str]:
    """Exit code and all that was printed, on one line."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, _on_one_line(result.output)


def _on_one_line(text: str) -> str:
    return " ".join(text.replace("│", " ").split())
