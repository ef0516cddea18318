"""Every reader of files that a user may have been sent, with small good files to begin from (see tests/fuzzing.py)."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Data

import pointset
from pointset.datasets.graph_files.formats import read_graph_file, write_graph_file
from pointset.datasets.own import graph_files, smiles_csv
from pointset.datasets.own.descriptor_table import read_descriptors
from pointset.datasets.safe_pickle import read_pickle, read_torch
from pointset.paper.tables.formats import read_table
from pointset.paper.tables.spec import table_named
from pointset.points.inputs import read_graphs
from pointset.points.point_files import read_points, write_points
from pointset.points.store import PointStore
from pointset.prediction import predictor
from pointset.reports.pages import write_report
from pointset.runs.recipe_files import read_recipe
from pointset.training import bundle, checkpoint
from tests.fuzzing import Reader
from tests.run_records import make_run
from tests.small_models import card_of, model_of, molecule_card

_TABLE = (
    b"id,smiles,logS,split\n1,CCO,-0.5,train\n2,c1ccccc1,1.5,train\n3,CC(=O)O,2,val\n4,CCN,-1e0,test\n"
    b'5,"C[C@H](N)C(=O)O",0.25,train\n6,CCCC,3.5,train\n7,[Na+].[Cl-],,test\n8,CO,0.75,val\n'
)
_SDF = b"".join(
    f"{name}\n  made here\n\n  2  1  0  0  0  0            999 V2000\n    0.0000    0.0000    0.0000 {first}   0  0\n"
    f"    1.5000    0.0000    0.0000 {second}   0  0\n  1  2  1  0\nM  END\n>  <y>\n{value}\n\n$$$$\n".encode()
    for name, first, second, value in [
        ("a", "C", "O", 0.5),
        ("b", "C", "N", 1.5),
        ("c", "C", "C", -2),
        ("d", "N", "O", 1),
    ]
)
_MOST_NODES = 60  # of graphs whose points are computed as well: it is readers that are tried


def readers(folder: Path) -> list[Reader]:
    """All of them; ``folder`` is for what they need to stand somewhere."""
    return [*_of_graphs(folder), *_of_tables(folder), *_of_settings(), *_of_runs(folder), *_of_models(folder)]


def _made(folder: Path, name: str, write: Callable[[Path], object]) -> bytes:
    path = folder / name
    write(path)
    return path.read_bytes()


def _graphs() -> list[Data]:
    """With every kind of feature."""
    made = []
    for graph in (nx.path_graph(3), nx.cycle_graph(5), nx.star_graph(4), nx.empty_graph(2)):
        edges = torch.tensor([[u, v] for u, v in graph.edges()], dtype=torch.long).reshape(-1, 2).T
        both, n = torch.cat([edges, edges.flip(0)], 1), len(graph)
        made.append(
            Data(
                edge_index=both,
                num_nodes=n,
                x=torch.arange(n * 2).reshape(n, 2),
                edge_attr=torch.ones(both.shape[1], 1),
                pos=torch.randn(n, 3),
                y=torch.tensor([0.5]),
            )
        )
    return made


def _of_graphs(folder: Path) -> list[Reader]:
    plain, full = [nx.path_graph(4), nx.petersen_graph(), nx.star_graph(70)], _graphs()
    held = {".g6": plain, ".s6": plain, ".graphml": full[:1], ".csv": plain[:1], ".pt": full}

    def read(path: Path) -> None:
        for record in read_graph_file(path):
            if record.problem is None:
                graphs = read_graphs([record.graph])
                if graphs.num_nodes[0] <= _MOST_NODES:
                    pointset.to_points(record.graph)

    made = {
        suffix: _made(folder, f"graphs{suffix}", partial(write_graph_file, graphs=graphs, lossy=True))
        for suffix, graphs in held.items()
    }
    points = _made(
        folder, "points.safetensors", lambda path: write_points(path, pointset.to_points_many(plain, progress=False))
    )
    pickled = pickle.dumps({"y": np.arange(4.0), "edges": [(0, 1), (1, 2)], "names": ("a", "b")}, protocol=4)
    stored = io.BytesIO()
    torch.save({"x": torch.eye(3), "graphs": full[:2]}, stored)
    return [
        *(Reader(f"graphs {suffix}", suffix, [content], read) for suffix, content in made.items()),
        Reader("points", ".safetensors", [points], lambda path: [list(part) for part in read_points(path)]),
        Reader("pickle", ".pkl", [pickled], read_pickle),
        Reader("torch", ".pt", [stored.getvalue()], read_torch),
        _of_store(folder),
    ]


def _of_store(folder: Path) -> Reader:
    """An entry of the store; damage is discarded there, and computed again."""
    graphs = read_graphs([nx.path_graph(4), nx.petersen_graph()])
    store = PointStore(folder / "store")
    store.eigenpairs(graphs, progress=False)
    entry = store.folder / store.key(graphs)
    contents = {path.name: path.read_bytes() for path in entry.iterdir()}

    def write(_path: Path, content: bytes) -> None:
        for name, good in contents.items():
            (entry / name).write_bytes(content if name.endswith(".json") else good)

    description = next(content for name, content in contents.items() if name.endswith(".json"))
    return Reader("store", "", [description], lambda _path: store.eigenpairs(graphs, progress=False), write)


def _of_tables(folder: Path) -> list[Reader]:
    import openpyxl
    import pyarrow.csv
    import pyarrow.parquet

    def read(path: Path, **options: Any) -> None:
        smiles_csv(path, workers=1, max_rejected=1.0, progress=False, **options)

    workbook, excel = openpyxl.Workbook(), io.BytesIO()
    for line in _TABLE.decode().splitlines():
        workbook.active.append([cell.strip('"') for cell in line.split(",")])
    workbook.save(excel)
    parquet = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(io.BytesIO(_TABLE)), parquet)
    smi = b"CCO ethanol\nc1ccccc1 benzene\nCC(=O)O\tacetic acid\nCCN\n"
    described = b"smiles,a,b\nCCO,1,2.5\nc1ccccc1,0,-1\nCCN,3,1e-3\n"
    write_graph_file(folder / "targets.g6", [nx.path_graph(n) for n in range(2, 8)])
    targets = b"graph,y\n0,1.5\n1,2\n2,0.5\n3,4\n4,-1\n5,0\n"

    def read_targets(path: Path) -> None:
        graph_files(folder / "targets.g6", targets=path, progress=False, max_rejected=1.0)

    return [
        Reader("table csv", ".csv", [_TABLE, _TABLE.replace(b",", b";").replace(b".", b",")], read),
        Reader("table tsv", ".tsv", [_TABLE.replace(b",", b"\t")], read),
        Reader(
            "table smi",
            ".smi",
            [smi],
            lambda path: read(path, header=False, targets=[]),
        ),
        Reader("table sdf", ".sdf", [_SDF], read),
        Reader("table sdf.gz", ".sdf.gz", [gzip.compress(_SDF, mtime=0)], read),
        Reader("table sdf in gz", ".sdf.gz", [_SDF], read, lambda path, raw: path.write_bytes(gzip.compress(raw, 1))),
        Reader("table xlsx", ".xlsx", [excel.getvalue()], read),
        _inside_zip("sheet of xlsx", ".xlsx", excel.getvalue(), "xl/worksheets/sheet1.xml", read),
        _inside_zip("workbook of xlsx", ".xlsx", excel.getvalue(), "xl/workbook.xml", read),
        Reader("table parquet", ".parquet", [parquet.getvalue()], read),
        Reader("targets of graphs", ".csv", [targets], read_targets),
        Reader("descriptors", ".csv", [described], read_descriptors),
    ]


def _inside_zip(name: str, suffix: str, archive: bytes, member: str, read: Callable[[Path], object]) -> Reader:
    """One member of an archive is changed, the archive is whole."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        contents = {entry: source.read(entry) for entry in source.namelist()}

    def write(path: Path, content: bytes) -> None:
        with zipfile.ZipFile(path, "w") as target:
            for entry, good in contents.items():
                target.writestr(entry, content if entry == member else good)

    return Reader(name, suffix, [contents[member]], read, write)


def _of_settings() -> list[Reader]:
    recipes = [read_recipe(name).as_yaml().encode() for name in ("counting-small", "molecules", "zinc-hours")]
    table = b"""name: mine
title: Mine
paper_table: Table 1
columns: [{key: a, title: A}]
paper: [{title: PST, values: '0.1'}]
tasks: [{name: one, recipe: counting-small, metric: mae, columns: [a]}]
ours: [{name: pst, title: PST, counterpart: PST}]
budgets: {small: {scope: nothing, set: {trainer.epochs: 1}}}
"""
    result = (Path(__file__).parents[1] / "results" / "zinc-hours.json").read_bytes()
    return [
        Reader("recipe", ".yaml", recipes, read_recipe),
        Reader("table of results", ".yaml", [table], table_named),
        Reader("results", ".json", [result], read_table),
    ]


def _of_runs(folder: Path) -> list[Reader]:
    run = make_run(folder / "run", rows=6, epochs=3, smiles=True, drawn=True)

    def within(name: str) -> Reader:
        good = (run / name).read_bytes()

        def read_and_restore(path: Path) -> None:
            (run / name).write_bytes(path.read_bytes())
            try:
                write_report(run, folder / "report.html")
            finally:
                (run / name).write_bytes(good)

        return Reader(f"run {name}", Path(name).suffix, [good], read_and_restore)

    tensors = {"model": {"weight": torch.randn(3, 2)}, "best": {"weight": torch.zeros(3, 2)}}
    saved = folder / "checkpoint.safetensors"
    checkpoint.save_checkpoint(saved, tensors, checkpoint.ProgressRecord())
    return [
        *map(within, sorted(path.name for path in run.iterdir() if path.suffix in (".json", ".yaml", ".csv"))),
        Reader("checkpoint", ".safetensors", [saved.read_bytes()], checkpoint.read_checkpoint),
    ]


def _of_models(folder: Path) -> list[Reader]:
    """Archives as they are, and descriptions whose checksum is that of what they say."""
    for name, card in (("graphs", card_of()), ("molecules", molecule_card())):
        reader = None if name == "graphs" else {"hydrogens": False}
        bundle.write_bundle(folder / f"{name}.zip", model_of(card), card, molecule_reader=reader)
    archives = [(folder / f"{name}.zip").read_bytes() for name in ("graphs", "molecules")]
    with zipfile.ZipFile(folder / "graphs.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}

    def write(path: Path, content: bytes) -> None:
        try:
            description = json.loads(content)
            description["sha256"] = bundle._digest(description)
            content = json.dumps(description).encode()
        except (ValueError, TypeError, KeyError, RecursionError):
            pass  # as it is: no JSON, or no description
        with zipfile.ZipFile(path, "w") as archive:
            for name, good in contents.items():
                archive.writestr(name, content if name == "bundle.json" else good)

    def predict(path: Path) -> None:
        predictor.load(path).predict([nx.path_graph(3)], progress=False)

    return [
        Reader("bundle", ".zip", archives, predictor.load),
        Reader("bundle description", ".zip", [contents["bundle.json"]], predict, write),
    ]
