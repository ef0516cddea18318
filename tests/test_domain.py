"""The applicability domain: nearest fingerprints against loops, bounds, round trips; and real molecules."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from pointset.arrays import Array, Floats, Integers
from pointset.errors import FileFormatError, SpecError
from pointset.native import build
from pointset.native.similarity import FingerprintSet, Packed
from pointset.training.bundle import Place
from pointset.training.domain import MOST_FINGERPRINTS, MOST_REPRESENTATIONS, Domain

MOLECULES = Path(__file__).parents[2] / "shared" / "data" / "molecules"


def random_fingerprints(count: int, seed: int, bytes_: int = 256) -> Packed:
    """With as many bits as molecules have, from few to many."""
    random = np.random.default_rng(seed)
    shares = random.uniform(0.002, 0.05, (count, 1))
    return np.packbits(random.random((count, 8 * bytes_)) < shares, axis=1)


def similarities(queries: Packed, references: Packed) -> Floats:
    """(G, R) by loops over sets of bits."""
    sets = [[frozenset(np.flatnonzero(np.unpackbits(one))) for one in packed] for packed in (queries, references)]
    return np.array([[len(a & b) / len(a | b) if a | b else 0.0 for b in sets[1]] for a in sets[0]])


@pytest.fixture(params=["native", "numpy"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the compiled kernel, and without."""
    if request.param == "numpy":
        monkeypatch.setattr(build, "library", lambda: None)
    elif build.library() is None:
        pytest.skip("the native library cannot be built here")
    return str(request.param)


# --- fingerprints


def test_the_nearest_similarity_is_that_of_loops(path: str) -> None:
    references, queries = random_fingerprints(70, 0), random_fingerprints(40, 1)
    queries[3], queries[4] = references[17], 0  # one that is there, and one without bits
    found = FingerprintSet(references).nearest(queries)
    np.testing.assert_array_equal(found, similarities(queries, references).max(1))
    assert found[3] == 1 and found[4] == 0


def test_the_nearest_other_one_is_that_of_loops(path: str) -> None:
    references = random_fingerprints(60, 2, bytes_=16)
    references[10] = references[50]
    expected = similarities(references, references)
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(FingerprintSet(references).nearest_others(), expected.max(1))


def test_threads_find_the_same(path: str) -> None:
    references, queries = FingerprintSet(random_fingerprints(300, 3)), random_fingerprints(100, 4)
    np.testing.assert_array_equal(references.nearest(queries, threads=2), references.nearest(queries))


def test_sets_of_one_and_of_none(path: str) -> None:
    one = random_fingerprints(1, 5)
    assert FingerprintSet(one).nearest(one).tolist() == [1.0]
    assert FingerprintSet(one).nearest_others().tolist() == [0.0]
    assert FingerprintSet(one[:0]).nearest(one).tolist() == [0.0]
    assert FingerprintSet(one).nearest(one[:0]).tolist() == []


def test_fingerprints_of_another_shape_are_refused() -> None:
    wrong: list[Array] = [np.zeros((2, 100), np.uint8), np.zeros((2, 256), np.int64), np.zeros(256, np.uint8)]
    for one in wrong:
        with pytest.raises(SpecError, match="expected uint8"):
            FingerprintSet(one)
    with pytest.raises(SpecError, match=r"expected uint8 \(G, 256\)"):
        FingerprintSet(random_fingerprints(2, 0)).nearest(np.zeros((1, 128), np.uint8))


# --- the domain


def fitted(count: int = 400, seed: int = 0, *, molecules: bool = True) -> Domain:
    random = np.random.default_rng(seed)
    domain = Domain.fit(
        random.integers(5, 20, count),
        random.normal(size=(count, 8)).astype(np.float32),
        random_fingerprints(count, seed) if molecules else None,
    )
    assert domain is not None
    return domain


def test_the_distance_is_the_mean_to_the_five_nearest_in_units_of_the_spread() -> None:
    random = np.random.default_rng(1)
    training = (random.normal(size=(50, 3)) * [1, 10, 100]).astype(np.float32)
    domain = Domain.fit(np.full(50, 9), training, None)
    assert domain is not None
    new = (random.normal(size=(7, 3)) * [1, 10, 100]).astype(np.float32)
    scaled = (new - training.mean(0)) / training.std(0)
    references = (training - training.mean(0)) / training.std(0)
    expected = [np.sort(np.linalg.norm(references - one, axis=1))[:5].mean() for one in scaled]
    np.testing.assert_allclose(domain(np.full(7, 9), new, None).distance, expected, rtol=5e-3)  # kept in 16 bits


@pytest.mark.parametrize("molecules", [True, False])
def test_most_graphs_of_the_same_kind_are_inside(molecules: bool) -> None:
    domain = fitted(molecules=molecules)
    random = np.random.default_rng(9)
    new = random.normal(size=(1_000, 8)).astype(np.float32)
    # random fingerprints are as far from each other as from new ones
    found = domain(random.integers(5, 20, 1_000), new, random_fingerprints(1_000, 9) if molecules else None)
    assert 0.9 < found.inside.mean() <= 1
    assert (found.similarity is None) is not molecules


def test_each_of_the_three_rules_can_put_a_graph_outside() -> None:
    domain = fitted()
    assert domain.fingerprints is not None
    one = domain.fingerprints.packed[:1]
    middle = domain.mean[None].astype(np.float32)
    assert domain(np.array([9]), middle, one).inside.tolist() == [True]
    assert domain(np.array([20]), middle, one).inside.tolist() == [False]
    assert domain(np.array([4]), middle, one).inside.tolist() == [False]
    assert domain(np.array([9]), middle + 10, one).inside.tolist() == [False]
    other = np.zeros_like(one)
    other[0, 0] = 1
    assert domain(np.array([9]), middle, other).inside.tolist() == [False]


def test_a_representation_that_is_not_finite_is_outside() -> None:
    domain = fitted(molecules=False)
    for value in (np.nan, np.inf, 1e38):
        found = domain(np.array([9]), np.full((1, 8), value, np.float32), None)
        assert found.inside.tolist() == [False] and found.distance[0] > 1e6


def test_a_channel_that_hardly_varies_does_not_decide() -> None:
    random = np.random.default_rng(2)
    training = random.normal(size=(100, 4)).astype(np.float32)
    training[:, 3] = 1
    domain = Domain.fit(np.full(100, 9), training, None)
    assert domain is not None
    new = training[:1] + np.float32(1e-5)
    assert domain(np.array([9]), new, None).inside.all()
    same = Domain.fit(np.full(30, 9), np.ones((30, 4), np.float32), None)  # a model that says the same of all
    assert same is not None and same(np.array([9]), np.ones((1, 4), np.float32), None).inside.all()


def test_few_graphs_have_no_domain() -> None:
    assert Domain.fit(np.full(19, 9), np.ones((19, 4), np.float32), None) is None


def test_of_large_training_parts_a_subset_is_kept() -> None:
    count = MOST_FINGERPRINTS + 500
    packed = np.random.default_rng(3).integers(0, 256, (count, 8), dtype=np.uint8)
    domains = [Domain.fit(np.full(count, 9), np.arange(count, dtype=np.float32)[:, None], packed) for _ in range(2)]
    for domain in domains:
        assert domain is not None and domain.references == MOST_FINGERPRINTS
        assert len(domain.representations) == MOST_REPRESENTATIONS
    assert domains[0] and domains[1] and domains[0].largest_distance == domains[1].largest_distance


@pytest.mark.parametrize("molecules", [True, False])
def test_a_domain_survives_the_round_trip(molecules: bool) -> None:
    domain = fitted(molecules=molecules)
    plain, arrays = domain.as_plain()
    again = Domain.from_plain(Place(plain, "domain"), arrays, 8, None)
    random = np.random.default_rng(4)
    new = random.normal(size=(200, 8)).astype(np.float32), random_fingerprints(200, 7) if molecules else None
    before, after = domain(np.full(200, 9), *new), again(np.full(200, 9), *new)
    assert (before.inside == after.inside).all() and (before.distance == after.distance).all()


def test_a_damaged_domain_is_refused() -> None:
    plain, arrays = fitted().as_plain()
    changes: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"nodes": [3]}, {}),
        ({"largest_distance": "far"}, {}),
        ({}, {"spread": np.zeros(8)}),
        ({}, {"mean": np.full(8, np.nan)}),
        ({}, {"representations": arrays["representations"][:, :5]}),
        ({}, {"fingerprints": arrays["fingerprints"][:, :64]}),
    ]
    for values, others in changes:
        with pytest.raises(FileFormatError, match="domain"):
            Domain.from_plain(Place({**plain, **values}, "domain"), {**arrays, **others}, 8, None)  # type: ignore[dict-item]
    with pytest.raises(FileFormatError, match="fingerprints"):
        Domain.from_plain(
            Place(plain, "domain"), {name: array for name, array in arrays.items() if name != "fingerprints"}, 8, None
        )


@pytest.mark.skipif(not MOLECULES.is_dir(), reason="the molecules of MoleculeNet are not here")
def test_drugs_are_outside_of_the_domain_of_small_solvents() -> None:
    """By size and fingerprint alone; the representations of all molecules are the same here."""
    chem = pytest.importorskip("rdkit.Chem", reason="RDKit is not installed")
    from rdkit.Chem import rdFingerprintGenerator

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)

    def molecules(name: str, count: int) -> tuple[Integers, Packed]:
        with (MOLECULES / f"{name}.csv").open(newline="") as file:
            read = [chem.MolFromSmiles(row["smiles"]) for row in csv.DictReader(file)]
        chosen = [read[at] for at in np.random.default_rng(0).permutation(len(read))[:count]]
        packed = np.stack([np.packbits(generator.GetFingerprintAsNumPy(one)) for one in chosen])
        return np.array([one.GetNumAtoms() for one in chosen]), packed

    sizes, packed = molecules("freesolv", 642)
    domain = Domain.fit(sizes[:500], np.ones((500, 4), np.float32), packed[:500])
    assert domain is not None
    held_out = domain(sizes[500:], np.ones((142, 4), np.float32), packed[500:])
    assert held_out.inside.mean() > 0.9
    drugs, drug_fingerprints = molecules("lipo", 300)
    inside = domain(drugs, np.ones((300, 4), np.float32), drug_fingerprints).inside
    assert inside.mean() < 0.25 and not inside[drugs > 24].any()  # some of that set are as small as the larger solvents
