"""The form of the JSON files of a run folder, checked on reading. Keys that a report does not use may be anything."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

REGRESSION, MULTI_CLASS = "regression", "multi-class classification"  # two of the four tasks of result.json
Scores = dict[str, float | None]
Whole = Annotated[int, Field(ge=0)]


def _plain_name(name: str) -> str:
    if PurePath(name).name != name or name == "..":
        raise ValueError("expected the name of a folder beside this file")
    return name


class Form(BaseModel):
    """A group of keys."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True, protected_namespaces=())


class Expected(Form):
    """The paper's result."""

    metric: str
    value: float
    std: float | None = None
    seeds: int | None = None
    parameters: int | None = None
    table: str = ""
    note: str = ""
    per_target: dict[str, float] | None = None
    others: dict[str, dict[str, float]] | None = None


class DatasetNames(Form):
    """What was learned from."""

    name: str = ""
    title: str = ""


class Result(Form):
    """``result.json`` of one run."""

    recipe: str = ""
    title: str = ""
    dataset: DatasetNames = DatasetNames()
    task: str
    level: str = "graph"
    metric: str
    higher_is_better: bool
    test: Scores
    val: Scores = {}
    per_target: dict[str, Scores] = {}
    best_epoch: int | None = None
    epochs: int | None = None
    stopped_early: bool = False
    parameters: Whole | None = None
    seconds: float | None = None
    graphs_per_second: float | None = None
    peak_memory_bytes: float | None = None
    seed: int | None = None
    fold: int | None = None
    expected: Expected | None = None
    units: dict[str, str | None] = {}
    classes: list[str] = []
    split_sizes: dict[str, Whole] = {}
    test_scored: str = ""


class Spread(Form):
    """One score over several runs."""

    mean: float | None
    std: float | None = None


class SeveralResult(Form):
    """``result.json`` of a folder of seeds or folds."""

    runs: list[Annotated[str, AfterValidator(_plain_name)]] = Field(min_length=1)
    title: str = ""
    recipe: str = ""
    metric: str = ""
    test: dict[str, Spread] = {}
    expected: Expected | None = None


class GraphForm(Form):
    """A graph to be drawn."""

    name: str = ""
    num_nodes: Whole
    edges: list[tuple[Whole, Whole]] = []
    labels: list[str] | None = None
    smiles: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(max(edge) >= self.num_nodes for edge in self.edges):
            raise ValueError(f"an edge leads out of the {self.num_nodes} nodes")
        if self.labels is not None and len(self.labels) != self.num_nodes:
            raise ValueError(f"got {len(self.labels)} labels for {self.num_nodes} nodes")
        return self


class FunctionsForm(Form):
    """Eigenvalue functions f of some channels at the eigenvalues of a graph."""

    matrix: str = ""
    channels: list[int]
    eigenvalues: list[float | None]
    values: list[list[float | None]]  # a row for each eigenvalue, a column for each channel

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(self.values) != len(self.eigenvalues) or any(len(row) != len(self.channels) for row in self.values):
            raise ValueError("expected a row of values for each eigenvalue, with a number for each channel")
        return self


class AttentionForm(Form):
    """Attention of each layer on one graph."""

    graph: GraphForm
    layers: list[list[list[float | None]]]  # (layers, n, n)
    node: Whole = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        n = self.graph.num_nodes
        if any(len(matrix) != n or any(len(row) != n for row in matrix) for matrix in self.layers):
            raise ValueError(f"expected a matrix of {n} × {n} numbers for each layer")
        if self.node >= n:
            raise ValueError(f"there is no node {self.node} among {n}")
        return self


class ValueForm(Form):
    """A target of a graph."""

    target: str
    true: float | str | None = None
    predicted: float | str | None = None


class WorstForm(Form):
    """A graph that was predicted badly."""

    graph: GraphForm
    position: int | None = None
    error: float | None = None
    values: list[ValueForm] = []


class Examples(Form):
    """``examples.json``."""

    functions: FunctionsForm | None = None
    attention: AttentionForm | None = None
    worst: list[WorstForm] = []
