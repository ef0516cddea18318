"""SMILES → graphs of the kind that a model was trained on."""

from __future__ import annotations

import torch

from pointset.datasets.molecules.kinds import ReadMolecule, reader_of_kind
from pointset.datasets.molecules.many import Unreadable
from pointset.datasets.molecules.molecule import Molecule, MoleculeError
from pointset.datasets.molecules.reader import MoleculeReader
from pointset.errors import SpecError
from pointset.points.graphs import Features, Graph, WeightKind
from pointset.training.bundle import Bundle
from pointset.training.prediction.features import uses_positions


def molecule_reader_of(bundle: Bundle) -> ReadMolecule:
    """How this model's molecules are read: with OGB's features, or by the function of its kind of molecules.

    Raises:
        SpecError: the model was not trained on molecules, or needs positions that SMILES do not have.
    """
    kind = bundle.card.molecules
    if kind is None:
        raise SpecError(
            f"got SMILES, but the model was trained on {bundle.card.title or bundle.card.name}, whose graphs are not "
            "made from SMILES; expected graphs with the same features"
        )
    read = reader_of_kind(kind, bundle.molecule_reader)
    makes_positions = isinstance(read, MoleculeReader) and read.conformer_seed is not None
    if uses_positions(bundle.model) and not makes_positions:
        raise SpecError("got SMILES, but the model needs positions in space; expected graphs with pos")
    return read


def refusal(reason: Unreadable | MoleculeError) -> MoleculeError:
    """Why a SMILES was not read, without a remedy that is not there: how to read is part of the model."""
    text = reason.reason if isinstance(reason, Unreadable) else str(reason)
    return MoleculeError(text.replace(", or read with lenient=True", ""))


def graph_of(molecule: Molecule) -> Graph:
    """The molecule in the form in which graphs are read; its bonds need not be in order."""
    pos = None if molecule.pos is None else torch.from_numpy(molecule.pos).to(torch.float32)
    features = Features(torch.from_numpy(molecule.x), torch.from_numpy(molecule.edge_attr), pos)
    return Graph(molecule.num_nodes, molecule.edges, None, WeightKind.NONE, features)
