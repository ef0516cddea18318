"""QM9's twelve targets, their units, and the energies of its atoms.

The files give Hartree; energies here are eV, converted with PyG's constant so that numbers are comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pointset.datasets.card import Target
from pointset.datasets.table import Array

HARTREE_IN_EV = 27.211386246
ELEMENTS = {"H": 1, "C": 6, "N": 7, "O": 8, "F": 9}  # atomic numbers; in this order the categories 0…4 of x

TARGETS = (
    Target("mu", "D", "dipole moment"),
    Target("alpha", "a0^3", "isotropic polarisability"),
    Target("homo", "eV", "energy of the highest occupied orbital"),
    Target("lumo", "eV", "energy of the lowest unoccupied orbital"),
    Target("gap", "eV", "lumo − homo"),
    Target("r2", "a0^2", "electronic spatial extent"),
    Target("zpve", "eV", "zero-point vibrational energy"),
    Target("u0", "eV", "internal energy at 0 K"),
    Target("u298", "eV", "internal energy at 298.15 K"),
    Target("h298", "eV", "enthalpy at 298.15 K"),
    Target("g298", "eV", "free energy at 298.15 K"),
    Target("cv", "cal/(mol K)", "heat capacity at 298.15 K"),
)
_IN_UNITS = np.array([HARTREE_IN_EV if target.unit == "eV" else 1.0 for target in TARGETS])

# The energies of single atoms by the same method, in Hartree: the file atomref.txt that is published with QM9. It gives
# a reference for cv too, 2.981 for every atom; like PyG, we leave cv as it is.
_ATOM_ENERGIES = {
    "u0": (-0.500273, -37.846772, -54.583861, -75.064579, -99.718730),
    "u298": (-0.498857, -37.845355, -54.582445, -75.063163, -99.717314),
    "h298": (-0.497912, -37.844411, -54.581501, -75.062219, -99.716370),
    "g298": (-0.510927, -37.861317, -54.598897, -75.079532, -99.733544),
}
REFERENCED = tuple(_ATOM_ENERGIES)  # the targets from which atom references are subtracted


def in_units(targets: Array) -> NDArray[np.float64]:
    """(G, 12) the targets in the units of :data:`TARGETS`, from the units of the files: Hartree, Debye, Bohr."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        converted: NDArray[np.float64] = targets.astype(np.float64) * _IN_UNITS
    return converted


def atom_reference_energies(x: Any, num_nodes: Any) -> NDArray[np.float64]:
    """(G, 12) what the atoms of each molecule have by themselves, Σ_atoms E_element, in eV; 0 but for four targets.

    ``load("qm9", atom_reference=True)`` subtracts it, so that it is what to add to predictions to have QM9's targets.

    Args:
        x: (N,) or (N, 1) elements as in ``x`` of the graphs: 0…4 for H, C, N, O, F.
        num_nodes: (G,) atoms of each molecule.
    """
    elements, sizes = np.asarray(x).reshape(-1), np.asarray(num_nodes).astype(np.int64)
    molecule = np.repeat(np.arange(len(sizes)), sizes)
    counts = np.bincount(molecule * len(ELEMENTS) + elements, minlength=len(sizes) * len(ELEMENTS))
    return counts.reshape(len(sizes), len(ELEMENTS)) @ _reference_table([target.name for target in TARGETS])


def _reference_table(names: Sequence[str]) -> NDArray[np.float64]:
    """(5, targets) in eV."""
    nothing = (0.0,) * len(ELEMENTS)
    return np.array([_ATOM_ENERGIES.get(name, nothing) for name in names]).T * HARTREE_IN_EV
