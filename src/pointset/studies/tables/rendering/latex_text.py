"""Plain text for LaTeX: what it would read as commands, and letters that pdflatex does not know (:func:`escaped`)."""

from __future__ import annotations

import unicodedata

_COMMANDS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "–": "--", "—": "---", "…": r"\ldots{}", "Å": r"\AA{}",
}  # fmt: skip
_MATHEMATICS = {
    "±": r"\pm", "×": r"\times", "−": "-", "·": r"\cdot", "≤": r"\leq", "≥": r"\geq", "≈": r"\approx", "≠": r"\neq",
    "↓": r"\downarrow", "↑": r"\uparrow", "→": r"\rightarrow", "↔": r"\leftrightarrow", "∞": r"\infty", "√": r"\surd",
    "∈": r"\in", "°": r"^{\circ}", "½": r"\frac{1}{2}", "✓": r"\checkmark", "µ": r"\mu",
}  # fmt: skip
_RAISED_OR_LOWERED = {"<super>": "^", "<sub>": "_"}


def escaped(text: str) -> str:
    """On one line. Greek letters, raised and lowered ones and the usual signs become mathematics."""
    joined = "".join(_letter(letter) for letter in " ".join(text.split()))
    return joined.replace("}$$^{", "").replace("}$$_{", "")  # ⁻³ is one exponent, not two


def _letter(letter: str) -> str:
    if letter in _COMMANDS:
        return _COMMANDS[letter]
    if letter in _MATHEMATICS:
        return f"${_MATHEMATICS[letter]}$"
    if letter.isascii():
        return letter
    kind, _, code = unicodedata.decomposition(letter).partition(" ")
    if kind in _RAISED_OR_LOWERED and " " not in code:
        inner = chr(int(code, 16)).replace("−", "-")
        return f"${_RAISED_OR_LOWERED[kind]}{{{inner}}}$"
    return _greek(letter) or letter


def _greek(letter: str) -> str:
    """The command that is named as the letter; that of a capital begins with one."""
    words = unicodedata.name(letter, "").split(" ")
    if words[:1] != ["GREEK"] or len(words) != 4 or words[2] != "LETTER":
        return ""
    name = words[3].replace("LAMDA", "LAMBDA").lower()
    return f"$\\{name if words[1] == 'SMALL' else name.capitalize()}$"
