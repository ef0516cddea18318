"""Why a model predicts what it does: contributions of atoms and bonds (:class:`Attribution`), drawn and in tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pointset.arrays import Floats
from pointset.datasets.card import Level, Task
from pointset.datasets.molecules.descriptors import descriptors_by_atom
from pointset.datasets.molecules.parsing import (
    Molecule,
    MoleculeError,
    elements_of,
    is_mol,
    parse,
    silent_rdkit,
    smiles_of,
)
from pointset.encoders.attributions import GraphContributions, Method, contributions
from pointset.errors import SpecError, did_you_mean
from pointset.files import replacing, write_csv
from pointset.points.graphs import Graph
from pointset.prediction.predictor import PredictedIntervals, Predictor
from pointset.progress import progress_bar
from pointset.reports.explanations import Explained, explanation_png, explanation_svg, write_explanations
from pointset.reports.molecules import Contributions
from pointset.text import clipped, counted, for_markup, number, signed, with_interval, with_spread
from pointset.training.outputs import score_of

Bond = tuple[int, int]
PICTURES = (".svg", ".png", ".html", ".csv")
_TOGETHER = 16  # molecules of a batch
_LOGIT = "logit"
_OUTSIDE = "unlike the training molecules: do not rely on it"
_MISSED = 0.02  # of prediction − baseline: a residual that is worth mentioning
_HEADER = (
    "molecule", "smiles", "target", "part", "atom", "other_atom", "element", "contribution", "spread", "total",
    "given_atom",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each atom and bond of a molecule adds to the prediction of one target.

    ``prediction = baseline + atoms.sum() + sum(bonds.values()) + environments.sum() + descriptors + residual``. Numbers
    are in the target's unit; of labels and classes they belong to the logit, whose sigmoid is the probability. Of an
    ensemble they are means over its members.
    """

    smiles: str  # the writing whose atoms are numbered, from 0
    target: str  # or the class
    unit: str
    prediction: float
    baseline: float  # for the same skeleton of average atoms and bonds
    elements: tuple[str, ...]  # (n,)
    atoms: Floats  # (n,)
    bonds: Mapping[Bond, float]
    environments: Floats  # (n,) of Morgan counts, shared among the atoms that are counted; zeros without
    descriptors: float  # of the other descriptors, and of counts of what the molecule does not have
    residual: float  # what the sum misses
    atom_spread: Floats  # (n,) standard deviation over the members; zeros for one model
    bond_spread: Mapping[Bond, float]
    total_spread: Floats  # (n,) that of the totals
    members: int = 1
    interval: tuple[float, float] | None = None  # of a number, where the model is calibrated: 90 %
    doubt: str = ""  # why the prediction should not be trusted: outside of the model's domain
    predicted: float | None = None  # the probability of a label or class
    given_atoms: tuple[int, ...] | None = None  # (n,) the number of each atom in what was given; None: cannot be told

    @property
    def probability(self) -> float | None:
        """Of a label or class, as :meth:`Predictor.predict` gives it; None for numbers.

        An ensemble predicts the mean of its members' probabilities, and ``prediction`` is the mean of their logits.
        """
        if self.unit != _LOGIT:
            return None
        return 1 / (1 + math.exp(-self.prediction)) if self.predicted is None else self.predicted

    @property
    def text(self) -> str:
        """``logS −2.1 (−2.9 to −1.4) mol/l``; ``p(active) 0.83 (logit +1.59)``."""
        if self.probability is None:
            value = number(self.prediction) if self.interval is None else with_interval(self.prediction, *self.interval)
            return f"{self.target} {value} {self.unit}".strip()
        return f"p({self.target}) {number(self.probability, 3)} (logit {signed(self.prediction, 3)})"

    @property
    def totals(self) -> Floats:
        """(n,) of each atom with half of each of its bonds and its share of environments: what is shown by default."""
        sums = self.atoms + self.environments
        for bond, value in self.bonds.items():
            sums[list(bond)] += value / 2
        return sums

    def parts(self, *, bonds: bool = False) -> list[tuple[str, float, float]]:
        """Name, contribution and spread of all parts, the strongest first: ``("N 3", 0.41, 0.0)``.

        By default :attr:`totals` of the atoms; with ``bonds`` these apart from the atoms.
        """
        names = [f"{element} {at}" for at, element in enumerate(self.elements)]
        own = (self.atoms + self.environments, self.atom_spread)
        values, spread = own if bonds else (self.totals, self.total_spread)
        found = list(zip(names, values.tolist(), spread.tolist(), strict=True))
        if bonds:
            found += [
                (f"{names[a]} – {names[b]}", value, self.bond_spread.get((a, b), 0.0))
                for (a, b), value in self.bonds.items()
            ]
        return sorted(found, key=lambda part: -abs(part[1]))

    def svg(self, *, numbered: bool = False, bonds: bool = False) -> str:
        """The molecule with its contributions in colour, as SVG.

        Args:
            numbered: atoms carry their numbers.
            bonds: bonds are coloured by themselves; otherwise half of each is in its atoms.
        """
        return explanation_svg([self.explained(bonds=bonds)], self.unit, numbered=numbered)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return self.svg()

    def explained(self, *, bonds: bool = False) -> Explained:
        """For pictures and pages."""
        missed = abs(self.residual) > _MISSED * abs(self.prediction - self.baseline)
        sums = {"atoms": float(self.atoms.sum()), "bonds": sum(self.bonds.values())}
        sums |= {"environments": float(self.environments.sum()), "descriptors": self.descriptors}
        sums |= {"not explained": self.residual} if missed else {}
        notes = [
            f"average atoms and bonds on this skeleton: {number(self.baseline)}",
            ", ".join(f"{name} {signed(value, 3)}" for name, value in sums.items() if value),
            *([self.doubt] if self.doubt else []),
        ]
        rows = [(name, with_spread(value, spread or None)) for name, value, spread in self.parts(bonds=bonds)]
        apart = Contributions((self.atoms + self.environments).tolist(), self.bonds)
        shown = apart if bonds else Contributions(self.totals.tolist())
        return Explained(self.smiles, self.text, notes, shown, rows)


def explained(
    predictor: Predictor, given: Sequence[Any], target: str | None, method: Method, progress: bool | None
) -> list[Attribution]:
    """The attributions of :meth:`Predictor.explain`, of SMILES and RDKit molecules."""
    _check_model(predictor)
    column = _chosen_column(predictor, target)
    molecules, graphs = _read(predictor, [smiles_of(one) if is_mol(one) else one for one in given])
    found: list[Attribution] = []
    with progress_bar("Explaining", len(molecules), show=progress) as advance:
        for start in range(0, len(molecules), _TOGETHER):
            some = slice(start, start + _TOGETHER)
            found += _with_doubts(predictor, _attributions(predictor, molecules[some], graphs[some], column, method))
            advance(len(molecules[some]))
    return [replace(one, given_atoms=_given_atoms(what, one)) for what, one in zip(given, found, strict=True)]


def _given_atoms(given: Any, found: Attribution) -> tuple[int, ...] | None:
    """(n,) which atom of the SMILES or molecule that was given each atom is; equal ones may change places."""
    with silent_rdkit():
        try:
            mol = given if is_mol(given) else parse(given, lenient=True)
            match = mol.GetSubstructMatch(parse(found.smiles, lenient=True))
        except (MoleculeError, RuntimeError, ValueError):
            return None
    return tuple(match) if len(match) == len(found.elements) else None


def _with_doubts(predictor: Predictor, found: list[Attribution]) -> list[Attribution]:
    """With probabilities as they are predicted, and intervals and doubts where the model knows them."""
    uncertainty, smiles = predictor.bundle.uncertainty, [one.smiles for one in found]
    if predictor.card.task is not Task.REGRESSION:
        names = list(predictor.card.classes or predictor.card.target_names)
        likely = predictor.predict(smiles, progress=False, on_error="nan").reshape(len(found), -1)
        found = [
            replace(one, predicted=row[names.index(one.target)] if all(map(math.isfinite, row)) else None)
            for one, row in zip(found, likely.tolist(), strict=True)
        ]
    if uncertainty is None:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # intervals from few rows; predict says so
        intervals = predictor.predict_interval(smiles, progress=False, on_error="nan")
    if isinstance(intervals, PredictedIntervals) and intervals.lower is not None and intervals.upper is not None:
        columns = [predictor.target_names.index(one.target) for one in found]
        ends = [(float(intervals.lower[at, to]), float(intervals.upper[at, to])) for at, to in enumerate(columns)]
        found = [
            replace(one, interval=end if all(map(math.isfinite, end)) else None)
            for one, end in zip(found, ends, strict=True)
        ]
    if uncertainty.domain is None:
        return found
    domain = predictor.domain(smiles, progress=False, on_error="nan")
    near = [math.nan] * len(found) if domain.similarity is None else domain.similarity.tolist()
    return [
        one
        if inside
        else replace(one, doubt=_OUTSIDE + (f" (similarity {number(close, 2)})" if close == close else ""))
        for one, inside, close in zip(found, domain.in_domain.tolist(), near, strict=True)
    ]


def _check_model(predictor: Predictor) -> None:
    card, bundle = predictor.card, predictor.bundle
    if card.level is Level.NODE:
        raise SpecError("the model predicts for nodes; expected one that predicts for whole molecules")
    if card.molecules is None:
        raise SpecError(
            f"the model was trained on {card.title or card.name}, whose graphs are not molecules; expected a model of "
            "molecules, as contributions are shown by atom and bond"
        )
    if bundle.neutral is None or bundle.neutral.node is None:
        raise SpecError(
            "the model does not know the average atom of its training data, from which contributions are measured: it "
            "was trained by an older pointset, or without atom features. Train it again"
        )


def _chosen_column(predictor: Predictor, target: str | None) -> int | None:
    """The output to explain; None: the predicted class."""
    card = predictor.card
    names = card.classes or card.target_names
    if target is not None:
        if target not in names:
            what = "class" if card.classes else "target"
            raise SpecError(f"got {target!r}; expected a {what}: {', '.join(names)}{did_you_mean(target, list(names))}")
        return names.index(target)
    if len(names) == 1:
        return 0
    if card.classes:
        return None
    raise SpecError(f"the model predicts {len(names)} targets; name the one to explain: {', '.join(names)}")


def _read(predictor: Predictor, smiles: Sequence[str]) -> tuple[list[Molecule], list[Graph]]:
    read, engine = predictor.molecule_reader(), predictor.engine(_TOGETHER)
    molecules, graphs = [], []
    for at, text in enumerate(smiles):
        try:
            molecule = read(text)
            graph = engine.prepare(molecule)
        except (MoleculeError, SpecError) as error:
            prefix = f"item {at}: " if len(smiles) > 1 else ""
            raise type(error)(f"{prefix}{error}".replace(", or read with lenient=True", "")) from None
        molecules.append(molecule)
        graphs.append(graph)
    return molecules, graphs  # type: ignore[return-value]  # a molecule becomes a Graph


def _attributions(
    predictor: Predictor, molecules: Sequence[Molecule], graphs: list[Graph], column: int | None, method: Method
) -> list[Attribution]:
    """For molecules that fit into one batch."""
    points = list(predictor.engine(_TOGETHER).points_of(graphs))
    columns = [column] * len(points) if column is not None else _predicted_classes(predictor, points)
    found: dict[int, Attribution] = {}
    for chosen in sorted(set(columns)):
        places = [at for at, one in enumerate(columns) if one == chosen]
        bundle = predictor.bundle
        temperatures = None if bundle.uncertainty is None else bundle.uncertainty.temperatures
        neutral, score = bundle.neutral, score_of(predictor.card, bundle.scale, chosen, temperatures)
        if neutral is None:
            raise SpecError("the model has no averages of its training data; expected a newer bundle")
        of_members = [
            contributions(model, [points[at] for at in places], neutral, score, method=method)
            for model in predictor.models
        ]
        for at, *members in zip(places, *of_members, strict=True):
            found[at] = _joined(predictor, molecules[at], chosen, members)
    return [found[at] for at in range(len(points))]


def _predicted_classes(predictor: Predictor, points: Sequence[Any]) -> list[int]:
    return [int(number) for number in predictor.predict(points, progress=False).argmax(1)]


def _joined(
    predictor: Predictor, molecule: Molecule, column: int, members: Sequence[GraphContributions]
) -> Attribution:
    """Means over the members, and their spread."""
    card = predictor.card
    nodes, edges = (torch.stack([getattr(one, name) for one in members]) for name in ("nodes", "edges"))

    def spread(values: torch.Tensor) -> torch.Tensor:
        return values.std(0) if len(members) > 1 else torch.zeros_like(values[0])

    def by_bond(values: torch.Tensor) -> dict[Bond, float]:
        ends = map(tuple, members[0].edge_index.T.tolist())
        return dict(zip(ends, values.tolist(), strict=True))

    prediction, baseline, residual = (
        float(np.mean([getattr(one, name) for one in members])) for name in ("output", "baseline", "residual")
    )
    kind = (predictor.bundle.molecule_reader or {}).get("descriptors")
    described = [shared_descriptors(molecule, kind, one.descriptors.numpy()) for one in members]
    environments = torch.from_numpy(np.stack([atoms for atoms, _ in described]))
    return Attribution(
        smiles=molecule.smiles,
        target=(card.classes or card.target_names)[column],
        unit=card.targets[column].unit if card.task is Task.REGRESSION else _LOGIT,
        prediction=prediction,
        baseline=baseline,
        elements=elements_of(molecule.smiles, molecule.num_nodes),
        atoms=nodes.mean(0).numpy(),
        bonds=by_bond(edges.mean(0)),
        environments=environments.mean(0).numpy(),
        descriptors=float(np.mean([rest for _, rest in described])),
        residual=residual,
        atom_spread=spread(nodes + environments).numpy(),
        bond_spread=by_bond(spread(edges)),
        total_spread=spread(torch.stack([one.nodes_with_edges for one in members]) + environments).numpy(),
        members=len(members),
    )


def shared_descriptors(molecule: Molecule, kind: str | None, values: Floats) -> tuple[Floats, float]:
    """Contributions of descriptors: (n,) of Morgan counts by atom, and the sum of the rest."""
    atoms = np.zeros(molecule.num_nodes)
    if kind is None or len(values) <= 1:  # Shapley values have them all in one
        return atoms, float(values.sum())
    heavy, rest = descriptors_by_atom(molecule.smiles, kind, values)
    atoms[: len(heavy)] = heavy  # hydrogens come last
    return atoms, rest


def write_attributions(
    path: str | Path, several: Sequence[Attribution], *, numbered: bool = False, bonds: bool = False
) -> None:
    """Write them as the name of the file says: ``.svg``, ``.png`` (one molecule), ``.html`` or ``.csv``.

    ``numbered`` and ``bonds`` are as for :meth:`Attribution.svg`; a .csv has atoms and bonds in any case.

    Raises:
        SpecError: another kind of file, or a .png of several molecules, or of one that cannot be drawn.
        MissingExtraError: a page needs jinja2.
    """
    file, suffix = Path(path), Path(path).suffix.lower()
    check_kind(file, len(several))
    unit = several[0].unit if several else ""
    if suffix == ".csv":
        write_csv(file, _csv_rows(several))
    elif suffix == ".html":
        title = clipped(several[0].text, 80) if len(several) == 1 else f"Contributions to {several[0].target}"
        lead = f"What each atom and bond of {counted(len(several), 'molecule')} adds to the prediction."
        write_explanations(file, title, lead, [one.explained(bonds=bonds) for one in several], unit)
    elif suffix == ".svg":
        content = explanation_svg([one.explained(bonds=bonds) for one in several], unit, numbered=numbered)
        with replacing(file) as temporary:
            temporary.write_text(for_markup(content), encoding="utf-8")
    else:
        picture = explanation_png(several[0].explained(bonds=bonds), numbered=numbered)
        if picture is None:
            raise SpecError("the molecule cannot be drawn as a .png: it is too large, or RDKit has no Cairo. Use .csv")
        with replacing(file) as temporary:
            temporary.write_bytes(picture)


def check_kind(path: Path, molecules: int) -> None:
    """Refuse a file that cannot hold so many molecules, before any work is done."""
    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        raise SpecError(f"got {path.name!r}; expected a name that ends in {', '.join(PICTURES)}")
    if suffix == ".png" and molecules > 1:
        raise SpecError(f"got {molecules} molecules for {path.name}; a .png shows one. Use .svg, .html or .csv")


def _csv_rows(several: Sequence[Attribution]) -> Iterator[Sequence[object]]:
    """The header, then for each molecule what adds up to the prediction; totals of atoms are sums of other rows."""
    yield _HEADER
    for row, one in enumerate(several):
        start = (row, one.smiles, one.target)
        yield _csv_row(start, "baseline", one.baseline)
        columns = (one.elements, one.atoms.tolist(), one.atom_spread.tolist(), one.totals.tolist())
        given = one.given_atoms or [""] * len(one.elements)
        for at, (element, value, spread, total) in enumerate(zip(*columns, strict=True)):
            yield _csv_row(start, "atom", value, (at, "", element), spread, total, given=given[at])
        for (a, b), value in one.bonds.items():
            yield _csv_row(start, "bond", value, (a, b, ""), one.bond_spread[a, b])
        if one.environments.any() or one.descriptors:
            for at, value in enumerate(one.environments.tolist()):
                yield _csv_row(start, "environments", value, (at, "", one.elements[at]))
            yield _csv_row(start, "descriptors", one.descriptors)
        yield _csv_row(start, "residual", one.residual)
        yield _csv_row(start, "prediction", one.prediction)


def _csv_row(
    start: tuple[object, ...],
    part: str,
    value: float,
    where: tuple[object, object, object] = ("", "", ""),
    *more: float,
    given: object = "",
) -> Sequence[object]:
    """``more``: spread and total, where there are any."""
    return (*start, part, *where, f"{value:.9g}", *(f"{one:.9g}" for one in more), *[""] * (2 - len(more)), given)
