"""The formulas of P_3 … P_6 (corrected) as polynomials of what layers hold, and how layers come to hold it.

A, A2, … are powers of the adjacency matrix; d2, d3, … their diagonals; r2 = A·d2, r3 = A·d3 and t2 = (A⊙A²)·d2 sums
over neighbours; T = A⊙A², T3 = A⊙A³, T22 = A⊙A²⊙A². Names side by side are a product of matrices, Ad2A = A d(A²) A.
"""

from __future__ import annotations

from pointset.studies.theorems.polynomials import terms

POWERS = (1, 2, 3, 4, 5, 6)
COORDINATES = {"U": 0} | {("AU" if power == 1 else f"A{power}U"): power for power in POWERS}
# Copies of U that gates will multiply: a channel has one gate.
GATED = {"Ud2": "d2", "Ud3": "d3", "Ud4": "d4", "Ud2d2": "d2*d2", "Ur2": "r2"}
WALKS = {("A" if power == 1 else f"A{power}"): ("U", "AU" if power == 1 else f"A{power}U") for power in POWERS}

DIAGONALS = {f"d{power}": f"A{power}" for power in (2, 3, 4, 5)}
SUMS = {"r2": ("A", "A2"), "r3": ("A", "A3"), "t2": ("A*A2", "A2")}  # Σ_j Y_ij h_j
SCALARS = DIAGONALS | {name: f"sum.{name}" for name in SUMS}

# Σ_j Y_ij v_j of the first layer, and with its gates
TRIANGLES = {"TU": ("A*A2", "U"), "T3U": ("A*A3", "U"), "T22U": ("A*A2*A2", "U")}
NEIGHBOURS = {f"A{gate}U": ("A", f"U{gate}") for gate in ("d2", "d3", "d4", "d2d2")} | {"A2d2U": ("A2", "Ud2")}
# what a layer more makes of them
OUTER = {"Ar2U": ("A", "Ur2"), "ATU": ("A", "TU")}

# Inner products of those: ⟨(M U)_i, A^s U_j⟩ = (M A^s)_ij
OF_TRIANGLES = {
    "TA": ("TU", "AU"), "AT": ("AU", "TU"), "TA2": ("TU", "A2U"), "A2T": ("A2U", "TU"),
    "T3A": ("T3U", "AU"), "AT3": ("AU", "T3U"), "T22A": ("T22U", "AU"), "AT22": ("AU", "T22U"),
}  # fmt: skip
OF_NEIGHBOURS = {
    "Ad2A": ("Ad2U", "AU"), "Ad3A": ("Ad3U", "AU"), "Ad4A": ("Ad4U", "AU"), "Ad2d2A": ("Ad2d2U", "AU"),
    "Ad2A2": ("Ad2U", "A2U"), "A2d2A": ("A2U", "Ad2U"), "Ad3A2": ("Ad3U", "A2U"), "A2d3A": ("A2U", "Ad3U"),
    "Ad2A3": ("Ad2U", "A3U"), "A3d2A": ("A3U", "Ad2U"), "A2d2A2": ("A2d2U", "A2U"),
}  # fmt: skip
OF_OUTER = {"Ar2A": ("Ar2U", "AU"), "ATA": ("ATU", "AU")}


def both_ends(left: str) -> str:
    """The terms of one end and their mirror images."""
    return f"{left} + {left.replace('i.', 'j.')}"


def times(formula: str, *names: str, number: float = 1.0) -> str:
    """Every term of a formula multiplied."""
    return " + ".join(f"{number * factor:g} {'*'.join((*names, *more))}" for factor, more in terms(formula))


P3 = "A3 + A - i.d2*A - j.d2*A"

P4 = "A4 + 2 A2 + 3 A*A2 - Ad2A + " + both_ends("- i.d3*A - i.d2*A2")

_P5_ENDS = both_ends("- i.d4*A - i.d3*A2 - i.d2*A3 + 2 i.d2*i.d2*A - 6 i.d2*A + i.r2*A") + " + i.d2*j.d2*A"
_P5_WITHOUT_GATES = f"A5 + 3 A3 + 4 A + 3 A2*A2*A + 3 A*A3 - 4 A*A2 + 3 TA + 3 AT + {_P5_ENDS}"
P5 = f"{_P5_WITHOUT_GATES} - Ad3A - Ad2A2 - A2d2A"

_P6_POWERS = "A6 + 4 A4 + 12 A2 + 3 A*A4 + 6 A*A2*A3 + A2*A2*A2 - 4 A2*A2 + 44 A*A2"
_P6_ENDS = (
    both_ends("- i.d5*A - i.d4*A2 - i.d3*A3 - 5 i.d3*A - i.d2*A4 - 7 i.d2*A2 + 2 i.d2*i.d2*A2 + 4 i.d2*i.d3*A")
    + " + i.d2*j.d3*A + i.d3*j.d2*A + i.d2*j.d2*A2 + "
    + both_ends("- 12 i.d2*A*A2 - 8 i.d3*A + i.r3*A + i.r2*A2 + 2 i.t2*A + i.d2*Ad2A")
)
_P6_EDGES = "3 T3A + 3 T22A - 4 TA + 3 TA2 + 3 AT3 + 3 AT22 - 4 AT + 3 A2T - 8 A*AT - 8 A*TA"
_P6_INNER = "2 Ad2d2A - Ad4A - Ad2A3 - A3d2A - Ad3A2 - A2d3A - A2d2A2 - 10 Ad2A - 3 A*Ad2A"
P6_OF_TWO_LAYERS = f"{_P6_POWERS} + {_P6_ENDS} + {_P6_EDGES} + {_P6_INNER}"
P6 = f"{P6_OF_TWO_LAYERS} + 3 ATA + Ar2A"

# Σ_j A_ij P_k(i, j) = 2 C_{k+1}(i). Under the sum, A d(X) A becomes Σ_k (A⊙A²)_ik X_k, which needs no gate, and
# A T A becomes A⊙(A² T): a layer less.
TWICE_C4 = "A4 + A2 - A2*A2 - sum.r2"
TWICE_C5 = "A5 + 5 A3 - 2 A2*A3 - sum.r3 - 2 sum.t2"
C6_SUMMAND = times(_P5_WITHOUT_GATES, "A") + " - A*A2*j.d3 - A*A3*j.d2 - A2*A2*j.d2"
C7_SUMMAND = times(P6_OF_TWO_LAYERS, "A") + " + 3 A*A2T + A*A2*j.r2"
