"""A trained model as a file that runs without pointset and gives what :meth:`Predictor.predict` gives.

The scale of the targets, the mean over the members of an ensemble and calibrated probabilities are inside. Intervals,
the applicability domain and the reading of SMILES are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pointset.datasets.card import Card, Task
from pointset.datasets.molecules.parsing import is_mol, smiles_of
from pointset.encoders.export import Kind, export_inputs
from pointset.encoders.export_files import NODES, Exported, Nodes, export
from pointset.training.outputs import as_predictions, mean_outputs

if TYPE_CHECKING:
    from pointset.prediction.predictor import Predictor

_MEANINGS = {
    Task.REGRESSION: "predictions in the targets' own units",
    Task.BINARY: "probabilities of the label",
    Task.MULTI_CLASS: "probabilities of the classes",
    Task.MULTI_LABEL: "probabilities of the labels",
    Task.LINK: "probabilities of the pairs",
}


def export_predictor(predictor: Predictor, path: str | Path, nodes: Nodes = NODES) -> Exported:
    """See :meth:`Predictor.export`."""
    card, bundle = predictor.card, predictor.bundle
    found = bundle.uncertainty
    temperatures = None if found is None or card.task is Task.REGRESSION else found.temperatures

    def end(members: Tensor) -> Tensor:
        """(members, rows, out) → (rows, k) float64."""
        wide = members.to(torch.float64)
        outputs = mean_outputs(wide if bundle.scale is None else bundle.scale.restore(wide), card.task)
        return as_predictions(outputs if temperatures is None else outputs / temperatures, card.task)

    about: dict[str, Any] = {"task": card.task.value, "members": len(predictor.models)} | _about(card)
    if bundle.molecule_reader is not None:
        about["molecule_reader"] = dict(bundle.molecule_reader)
    if bundle.weighted_edges is not None:
        about["edge_weights"] = f"column {bundle.weighted_edges} (from 0) of the training data's edge features"
    return export(path, predictor.models, nodes=nodes, end=end, meaning=_MEANINGS[card.task], about=about)


def _about(card: Card) -> dict[str, Any]:
    """What the numbers mean that go in and come out."""
    targets = [{"name": one.name, "unit": one.unit, "meaning": one.meaning} for one in card.targets]
    names = ("classes", "molecules", "node_columns", "node_labels", "edge_columns", "edge_labels")
    return {"trained_on": card.title or card.name, "targets": targets} | {
        name: value for name in names if (value := getattr(card, name))
    }


def predictor_inputs(predictor: Predictor, item: Any, kind: Kind) -> dict[str, Tensor]:
    """See :meth:`Predictor.export_inputs`."""
    if is_mol(item):
        item = smiles_of(item)
    if isinstance(item, str):
        item = predictor.molecule_reader()(item)
    return export_inputs(predictor.model, predictor.engine(1).prepare(item), kind)
