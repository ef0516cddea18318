"""The store on disk: computed once, atomic, checked, repaired, safe with two writers."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

import pointset
from pointset.errors import GraphError, PointsetError, StoreWarning
from pointset.files import cache_folder
from pointset.points.inputs import read_graphs

GRAPHS = [nx.gnp_random_graph(n, 0.4, seed=n) for n in range(0, 30)]


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")]


def convert(folder: Path) -> pointset.PointSets:
    return pointset.to_points_many(GRAPHS, store=folder)


def same(a: pointset.PointSets, b: pointset.PointSets) -> bool:
    return all(
        torch.equal(p.eigenvalues, q.eigenvalues) and torch.equal(p.eigenvectors, q.eigenvectors)
        for p, q in zip(a, b, strict=True)
    )


def test_kept_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = convert(tmp_path)
    assert same(first, pointset.to_points_many(GRAPHS))
    assert len(entries(tmp_path)) == 1
    monkeypatch.setattr("pointset.points.store.solve_in_order", lambda *_, **__: pytest.fail("solved again"))
    again = convert(tmp_path)
    assert same(first, again)
    assert isinstance(again.eigenpairs.vectors, np.memmap)


def test_the_key_is_the_content(tmp_path: Path) -> None:
    store = pointset.PointStore(tmp_path)
    base = read_graphs(GRAPHS)
    keys = {
        store.key(base),
        store.key(base, matrix="adjacency"),
        store.key(base, rank=3),
        store.key(base, rank=3, which="largest"),
        store.key(read_graphs(GRAPHS[:-1])),
        store.key(read_graphs([*GRAPHS[:-1], nx.path_graph(3)])),
        store.key(read_graphs([nx.to_numpy_array(graph) * 2 if len(graph) else graph for graph in GRAPHS])),
    }
    assert len(keys) == 7
    assert store.key(read_graphs(GRAPHS)) == store.key(base)
    assert store.key(base, rank=int(np.int64(3))) == store.key(base, rank=3)
    one_loop, two_graphs = read_graphs([(2, [(0, 0)])]), read_graphs([(2, []), (1, [])])
    assert store.key(one_loop) != store.key(two_graphs)


@pytest.mark.parametrize("file", ["values.f64", "vectors.f64", "index.i64", "errors.f64", "entry.json"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "empty"])
def test_damage_is_noticed_and_repaired_with_a_warning(tmp_path: Path, file: str, damage: str) -> None:
    whole = pointset.to_points_many(GRAPHS)
    convert(tmp_path)
    path = entries(tmp_path)[0] / file
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "truncate":
        path.write_bytes(content[:-3])
    elif damage == "empty":
        path.write_bytes(b"")
    else:
        path.unlink()
    with pytest.warns(StoreWarning, match="computed again"):
        assert same(convert(tmp_path), whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(convert(tmp_path), whole)


def test_an_entry_of_another_version_is_replaced(tmp_path: Path) -> None:
    convert(tmp_path)
    path = entries(tmp_path)[0] / "entry.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.warns(StoreWarning):
        convert(tmp_path)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        raise GraphError("stopped half-way")
        yield

    monkeypatch.setattr("pointset.points.store.solve_in_order", broken)
    with pytest.raises(GraphError, match="half-way"):
        convert(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_thread_setting_is_restored_after_a_failed_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(
            "pointset.points.store._HashedFile.write", lambda *_: (_ for _ in ()).throw(OSError(28, "full"))
        )
        with pytest.raises(PointsetError, match="full") as caught:
            convert(tmp_path)
        assert torch.get_num_threads() == 2, caught  # the exception, and with it the frames, is still held
    finally:
        torch.set_num_threads(before)


def test_a_system_error_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    convert(tmp_path)
    kept = entries(tmp_path)[0].stat().st_ino
    monkeypatch.setattr("hashlib.file_digest", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
    with pytest.raises(PointsetError, match="Too many open files"):
        convert(tmp_path)
    assert entries(tmp_path)[0].stat().st_ino == kept


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(PointsetError, match="POINTSET_CACHE"):
        convert(tmp_path / "file")


def _write(folder: str, ready: multiprocessing.synchronize.Barrier, count: int) -> None:
    torch.set_num_threads(1)
    ready.wait()
    for _ in range(count):
        pointset.to_points_many(GRAPHS, store=folder)


def test_two_writers_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    writers = [context.Process(target=_write, args=(str(tmp_path), ready, 3)) for _ in range(2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert len(entries(tmp_path)) == 1
    assert [path.name for path in tmp_path.iterdir()] == [entries(tmp_path)[0].name]  # no temporary folder is left
    assert same(convert(tmp_path), pointset.to_points_many(GRAPHS))


def test_a_killed_writer_leaves_no_entry_and_its_remains_are_swept_later(tmp_path: Path) -> None:
    code = (
        "import os, sys, pointset, networkx as nx, pointset.points.store as store\n"
        "def killed(*_, **__):\n"
        "    os.kill(os.getpid(), 9)\n"
        "    yield\n"
        "store.solve_in_order = killed\n"
        "pointset.to_points_many([nx.path_graph(4)], store=sys.argv[1])\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False).returncode == -9
    remains = list(tmp_path.iterdir())
    assert len(remains) == 1 and entries(tmp_path) == []
    old = time.time() - 3 * 24 * 3600
    os.utime(remains[0], (old, old))
    convert(tmp_path)
    assert not remains[0].exists()


def test_truncated_points_keep_their_errors(tmp_path: Path) -> None:
    fresh = pointset.to_points_many(GRAPHS, rank=3)
    kept = pointset.to_points_many(GRAPHS, rank=3, store=tmp_path)
    again = pointset.to_points_many(GRAPHS, rank=3, store=tmp_path)
    assert [p.truncation for p in fresh] == [p.truncation for p in kept] == [p.truncation for p in again]


def test_where_the_store_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POINTSET_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" == pointset.PointStore().folder
    monkeypatch.delenv("POINTSET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pointset"


def test_no_graphs_and_no_edges(tmp_path: Path) -> None:
    assert len(pointset.to_points_many([], store=tmp_path)) == 0
    assert pointset.to_points_many([(3, [])], store=tmp_path)[0].rank == 0
    assert pointset.to_points_many([(3, [])], store=tmp_path)[0].rank == 0
