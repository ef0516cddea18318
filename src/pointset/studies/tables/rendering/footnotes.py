"""Letters for the notes of rows and cells: a, b, …, z, aa, ab, … in the order in which they occur."""

from __future__ import annotations

from string import ascii_lowercase


class Footnotes:
    """Equal notes share a letter."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def letter(self, note: str) -> str:
        """Of this note; empty where there is none."""
        note = " ".join(note.split())
        if note and note not in self._letters:
            self._letters[note] = _letters(len(self._letters))
        return self._letters.get(note, "")

    def listed(self) -> list[tuple[str, str]]:
        """Letters and notes, in order."""
        return [(letter, note) for note, letter in self._letters.items()]


def _letters(index: int) -> str:
    """0: ``a``, 25: ``z``, 26: ``aa``."""
    more, last = divmod(index, len(ascii_lowercase))
    return (_letters(more - 1) if more else "") + ascii_lowercase[last]
