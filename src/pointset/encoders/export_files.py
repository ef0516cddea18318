"""Exported models: traced, written as ``.pt2`` or ``.onnx``, and compared with the model before the file appears.

What is traced, and the tensors that it takes, stand in :mod:`pointset.encoders.export`.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pointset.encoders.batch import collate
from pointset.encoders.coordinates import Coordinates
from pointset.encoders.export import (
    End,
    Input,
    Kind,
    OfEigenpairs,
    OfMatrix,
    PlainModel,
    export_inputs,
    inputs_of,
    settings_of,
)
from pointset.encoders.layers import BatchEncoder, Readout
from pointset.encoders.linear import LocalTerms
from pointset.encoders.model import PointModel
from pointset.errors import MissingExtraError, SpecError
from pointset.files import replacing
from pointset.machine import VERSION
from pointset.points.convert import to_points
from pointset.points.graphs import Features, Graph, WeightKind
from pointset.registry import preset_named, preset_names
from pointset.specs import Categories, Spec

Nodes = int | tuple[int, int]  # exactly so many, or from … to …
NODES = (1, 64)
OUTPUTS = "outputs"
DESCRIPTION = "pointset.json"
"""Under which a file carries its description: as an extra file of a ``.pt2``, in the metadata of an ``.onnx``."""
_TRACED = 11  # nodes of the graph that is traced, where they may vary; any number above a few does
_LEAST_OPEN = 3  # the smallest upper bound of a range: torch takes 1 and 2 for fixed sizes
_CHECKED = (0, 1, 22)  # beyond the smallest number of nodes: sizes at which a file is compared with its model
_MOST_DIFFERENCE = 1e-4  # of the largest output; rounding in float32 mostly stays below 1e-5
_MOST_ROUNDINGS = 10  # and this many times the model's own rounding error, as some models magnify it
_DIMENSION = re.compile(r"\bs\d+\b")  # how torch calls n


class Exported(NamedTuple):
    """What was written."""

    path: Path
    description: dict[str, Any]  # as it stands in the file
    difference: float | None  # largest difference from the model, relative to the largest output; None: not compared
    sizes: tuple[int, ...]  # nodes of the random graphs on which it was compared


def export(
    path: str | Path,
    models: Sequence[PointModel],
    *,
    nodes: Nodes = NODES,
    end: End | None = None,
    meaning: str = "outputs of the model",
    about: Mapping[str, Any] | None = None,
) -> Exported:
    """Write models of the same settings, mostly one, as a ``.pt2`` or ``.onnx``; the file appears whole or not at all.

    The file is compared with the models on a few random graphs before it appears; see :meth:`PointModel.export`.

    Args:
        path: a file that ends in ``.pt2`` or ``.onnx``.
        models: the members of an ensemble, or one model.
        nodes: for graphs of exactly so many nodes, or of (at least, at most) so many.
        end: what is made of the members' outputs (members, rows, out); by default those of the only one.
        meaning: what comes out, in words, for the description.
        about: more for the description, plain values.

    Raises:
        SpecError: the models cannot be exported; the message says why.
        MissingExtraError: onnx or onnxscript is not installed.
    """
    target = Path(path)
    kind, (low, high) = kind_of(target), _range(nodes)
    if not target.parent.is_dir():
        raise SpecError(f"cannot write {target}: there is no folder {target.parent}. Create it first")
    members = [_prepared(model) for model in models]
    plain = (OfMatrix if kind == "pt2" else OfEigenpairs)(members, end or _only).eval()
    with torch.no_grad(), _silent():
        program = _traced(plain, kind, low, high)
        file: Any = program if kind == "pt2" else _as_onnx(program)
        compared = _compared(plain, _answer(file, kind), kind, low, high)
        description = _description(members[0], kind, (low, high), compared.example, meaning) | dict(about or {})
        text = json.dumps(description, indent=1, ensure_ascii=False, allow_nan=False)
        with replacing(target) as temporary:
            if kind == "pt2":
                archive = io.BytesIO()  # in which the temporary file's name does not occur
                torch.export.save(file, archive, extra_files={DESCRIPTION: text})
                temporary.write_bytes(archive.getbuffer())
            else:
                file.model.metadata_props[DESCRIPTION] = text
                file.save(str(temporary), external_data=False)
    return Exported(target, description, compared.difference, compared.sizes)


def _description(
    model: PointModel, kind: Kind, nodes: tuple[int, int], example: Tensor, meaning: str
) -> dict[str, Any]:
    rows: int | str = "n" if model.readout.level == "node" else 1
    return {
        "format": "pointset export",
        "version": 1,
        "pointset": VERSION,
        "preset": settings_of(model).preset,
        "matrix": model.matrix,
        "rank": model.rank,
        "nodes": list(nodes),
        "inputs": [entry.as_plain(*nodes) for entry in inputs_of(model, kind)],
        "outputs": [Input(OUTPUTS, example.dtype, (rows, example.shape[1]), meaning).as_plain(*nodes)],
    }


def kind_of(path: Path) -> Kind:
    """By the end of its name."""
    if path.suffix.lower() not in (".pt2", ".onnx"):
        raise SpecError(f"got {path.name!r}; expected a file that ends in .pt2 (torch.export) or .onnx (ONNX)")
    kind: Kind = "pt2" if path.suffix.lower() == ".pt2" else "onnx"
    if kind == "onnx" and not (find_spec("onnx") and find_spec("onnxscript")):
        raise MissingExtraError("onnx and onnxscript are not installed: pip install 'pointset[export]'")
    return kind


def _range(nodes: Any) -> tuple[int, int]:
    low, high = nodes if isinstance(nodes, (tuple, list)) and len(nodes) == 2 else (nodes, nodes)
    if any(isinstance(size, bool) or not isinstance(size, int) for size in (low, high)) or not 1 <= low <= high:
        raise SpecError(f"got nodes={nodes!r}; expected a whole number of at least 1, or (least, most) such as (1, 64)")
    if low < high < _LEAST_OPEN:
        raise SpecError(f"got nodes={nodes!r}; torch.export cannot leave that open; expected more, such as (1, 3)")
    return low, high


def _only(members: Tensor) -> Tensor:
    return members[0]


def _prepared(model: PointModel) -> PointModel:
    """A copy on the CPU in evaluation mode, if it can be exported."""
    settings = settings_of(model)
    if isinstance(model.encoder, BatchEncoder) or not isinstance(model.coordinates, Coordinates):
        raise SpecError(
            f"got {settings.preset}, a baseline, whose encoder does not compute on points; expected one of the paper's "
            f"variants: {', '.join(preset_names('paper'))}"
        )
    if settings.level == "edge":
        raise SpecError("got a model that scores pairs of nodes; expected one of graphs or nodes, to be exported")
    if not model.takes_padding or not isinstance(model.readout, Readout):
        raise SpecError(
            f"a part of {settings.preset} takes no padding, and in an exported model the columns of eigenvalues that "
            "are zero are masked as padding is; expected takes_padding = True in the class of every part, which masks "
            "what it adds up"
        )
    if model.rank is not None and isinstance(model.pairs, LocalTerms):
        raise SpecError(
            f"got {settings.preset} with rank={model.rank}, whose local term takes the edges of truncated points, and "
            "an exported model takes no list of edges; expected a model with rank=None, or pst-linear"
        )
    return copy.deepcopy(model).cpu().eval().requires_grad_(False)


@contextmanager
def _silent() -> Iterator[None]:
    """Without what the exporters say of their own code."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _traced(plain: PlainModel, kind: Kind, low: int, high: int) -> torch.export.ExportedProgram:
    """The program for graphs of ``low`` to ``high`` nodes."""
    model = _first(plain)
    example = export_inputs(model, _random_graph(model, max(2, min(_TRACED, high), low) if low < high else low), kind)
    size: Any = torch.export.Dim.DYNAMIC(min=low, max=high) if low < high else None
    shapes = {
        entry.name: {axis: size for axis, length in enumerate(entry.shape) if length == "n" and size is not None}
        for entry in inputs_of(model, kind)
    }
    try:
        program = torch.export.export(plain, (), example, dynamic_shapes=shapes)
    except Exception as error:  # an encoder of a user's own may do anything
        raise SpecError(
            f"torch.export cannot follow {settings_of(model).preset}: {type(error).__name__}: {error}\n"
            "A model that can be exported does not look at the numbers in its tensors, and treats all sizes alike"
        ) from error
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine, and most of the file's size
    return program


def _first(plain: PlainModel) -> PointModel:
    first = plain.models[0]
    if not isinstance(first, PointModel):
        raise SpecError(f"got a {type(first).__name__}; expected a PointModel")
    return first


def _as_onnx(program: torch.export.ExportedProgram) -> Any:
    try:
        file = torch.onnx.export(program, dynamo=True, verbose=False, output_names=[OUTPUTS])
    except Exception as error:
        raise SpecError(
            f"torch.onnx cannot translate the model: {type(error).__name__}: {error}\nExport it as .pt2 instead"
        ) from error
    if file is None:
        raise SpecError("torch.onnx gave no program; expected one. Export the model as .pt2 instead")
    _tidy(file.model)
    return file


def _tidy(model: Any) -> None:
    """Call n by its name in all shapes, and leave out what the exporter notes of its own work."""
    values = [*model.graph.inputs]
    for node in model.graph.all_nodes():
        node.metadata_props.clear()
        values += node.outputs
    for value in values:
        value.metadata_props.clear()
        for axis, size in enumerate(value.shape or ()):
            if not isinstance(size, int) and size.value is not None:
                value.shape[axis] = _DIMENSION.sub("n", size.value)


def _answer(file: Any, kind: Kind) -> Callable[[Mapping[str, Tensor]], Tensor] | None:
    """Runs what will be written; None where onnxruntime is not installed."""
    if kind == "pt2":
        module = file.module()
        return lambda given: module(**given)
    if not find_spec("onnxruntime"):
        return None
    return lambda given: file(**given)[0]


class _Comparison(NamedTuple):
    """How far a file is from its models on random graphs."""

    difference: float | None  # relative to the largest output; None: it could not be run
    sizes: tuple[int, ...]
    example: Tensor  # what the models give for one


def _compared(
    plain: PlainModel, answer: Callable[[Mapping[str, Tensor]], Tensor] | None, kind: Kind, low: int, high: int
) -> _Comparison:
    """Run both on random graphs of a few sizes; a file that differs is refused."""
    sizes = tuple(sorted({min(low + more, high) for more in _CHECKED}))
    wide = [copy.deepcopy(member).double() for member in plain.models]
    model, found = _first(plain), []
    for size in sizes:
        graph = _random_graph(model, size)
        points = collate([to_points(graph, matrix=model.matrix, rank=model.rank)])
        expected, exact = (plain.end(torch.stack([one(points) for one in some])) for some in (plain.models, wide))
        if answer is None:
            return _Comparison(None, (), expected)
        got = answer(export_inputs(model, graph, kind))
        if got.shape != expected.shape:
            raise SpecError(f"the exported model gives {tuple(got.shape)}; expected {tuple(expected.shape)}")
        found.append(torch.stack([part.abs().max() for part in (expected, got - expected, expected - exact)]))
    largest, difference, rounding = torch.stack(found).amax(0).tolist()  # NaN stays, unlike with max()
    relative = difference / largest if largest else difference
    if not difference <= _MOST_DIFFERENCE * largest + _MOST_ROUNDINGS * rounding:
        raise SpecError(
            f"the exported model differs from the model by {relative:.2g} of its largest output on random graphs of "
            f"{', '.join(map(str, sizes))} nodes; expected at most {_MOST_DIFFERENCE:g}. Nothing was written"
        )
    return _Comparison(relative, sizes, expected)


def _random_graph(model: PointModel, nodes: int) -> Graph:
    """With features that fit the model."""
    drawn = np.random.default_rng(nodes)
    wanted = np.triu(drawn.random((nodes, nodes)) < min(0.5, 4 / nodes), 1)
    edges = np.stack(np.nonzero(wanted)).astype(np.int64)
    settings = settings_of(model)

    def columns(spec: Spec, rows: int) -> Tensor | None:
        if spec is None:
            return None
        if isinstance(spec, Categories):
            return torch.from_numpy(drawn.integers(0, spec.sizes, (rows, spec.width)))
        return torch.from_numpy(drawn.standard_normal((rows, spec.width)).astype(np.float32))

    positions = drawn.standard_normal((nodes, 3)).astype(np.float32) * 3
    whole = drawn.standard_normal((1, settings.descriptors)).astype(np.float32)
    features = Features(
        x=columns(settings.node, nodes),
        edge_attr=columns(settings.edge, edges.shape[1]),
        pos=torch.from_numpy(positions) if preset_named(settings.preset).uses_positions else None,
        descriptors=torch.from_numpy(whole) if settings.descriptors else None,
    )
    return Graph(nodes, edges, None, WeightKind.NONE, features)
