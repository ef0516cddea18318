"""All datasets by name: :data:`BENCHMARKS`. Light to import: readers load what they need when they read."""

from __future__ import annotations

from pointset.datasets.benchmarks import counting, molhiv, pascalvoc, peptides, qm9, tu, zinc
from pointset.datasets.sources import Benchmark
from pointset.errors import SpecError, did_you_mean

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.card.name: benchmark
    for benchmark in (
        counting.COUNTING,
        counting.COUNTING_ORIGINAL,
        qm9.QM9,
        zinc.ZINC,
        zinc.ZINC_FULL,
        molhiv.MOLHIV,
        tu.MUTAG,
        tu.PTC_MR,
        tu.PROTEINS,
        tu.IMDB_BINARY,
        pascalvoc.PASCALVOC_SP,
        peptides.PEPTIDES_FUNC,
        peptides.PEPTIDES_STRUCT,
    )
}


def names() -> tuple[str, ...]:
    """The names of all datasets, in the order of the paper's table."""
    return tuple(BENCHMARKS)


def benchmark_named(name: str) -> Benchmark:
    """The dataset with this name.

    Raises:
        SpecError: there is none.
    """
    if not isinstance(name, str) or name not in BENCHMARKS:
        hint = did_you_mean(str(name).lower(), list(BENCHMARKS))
        raise SpecError(f"there is no dataset {name!r}; expected one of {', '.join(BENCHMARKS)}{hint}")
    return BENCHMARKS[name]
