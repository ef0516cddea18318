"""Table 5, fifth row: degrees and triangles from powers of the eigenvalues of A."""

from __future__ import annotations

import networkx as nx
import numpy as np

from pointset.points import encodings
from pointset.studies.statement import Finding, holds_if
from pointset.studies.theorems.encoding_trials import Array, Encoding, compare, example, inner_products, trial_graphs
from pointset.studies.theorems.small_graphs import Matrix


def power_as_printed(exponent: int) -> Encoding:
    """⟨U_i, diag(Λ^k) U_j⟩ on A, (n, n): the table has j on one side only."""
    return lambda A: inner_products(A, "adjacency", lambda values: values**exponent)[0]


def degrees_by_definition(A: Matrix) -> Array:
    """d_i, in every column: the table says it for each j."""
    return _in_columns(A.sum(-1))


def triangles_by_definition(A: Matrix) -> Array:
    """t_i by enumeration, in every column."""
    graph = nx.from_numpy_array(A)
    return _in_columns(np.array([nx.triangles(graph, node) for node in range(len(A))], dtype=np.float64))


def degree(max_nodes: int = 6, form: Encoding | None = None) -> Finding:
    """Table 5, fifth row, degrees."""
    form = form or power_as_printed(2)
    graphs = trial_graphs(max_nodes, connected=False)
    found = compare(form, degrees_by_definition, graphs)
    own = compare(_at_itself(power_as_printed(2)), degrees_by_definition, graphs)
    weighted = [A for A in trial_graphs(max_nodes, connected=False, weighted=True) if len(A) > max_nodes]
    squares = compare(_at_itself(power_as_printed(2)), degrees_by_definition, weighted)
    library = compare(lambda A: _in_columns(encodings.degree(np.array(A)).numpy()), degrees_by_definition, weighted)
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, random ones with up to 30): ⟨U_i, Λ²U_j⟩ is (A²)_ij "
        f"and not d_i on {found.wrong} of them{example(found, form, degrees_by_definition, (0, 1))}. With j = i it is "
        f"the degree, to {own.largest_error:.1e} (wrong on {own.wrong}); with weights it is Σ_j A_ij² (wrong on "
        f"{squares.wrong} of {squares.graphs} graphs), and half the row sums of D + A hold (wrong on {library.wrong})."
    )
    return holds_if(found.right, evidence, graphs=found.graphs, wrong=found.wrong, wrong_with_j_equal_to_i=own.wrong)


def triangles(max_nodes: int = 6, form: Encoding | None = None) -> Finding:
    """Table 5, fifth row, triangles."""
    form = form or power_as_printed(3)
    graphs = trial_graphs(max_nodes, connected=False)
    found = compare(form, triangles_by_definition, graphs)
    own = compare(_at_itself(power_as_printed(3)), triangles_by_definition, graphs)
    half = compare(lambda A: _at_itself(power_as_printed(3))(A) / 2, triangles_by_definition, graphs)
    evidence = (
        f"{found.graphs} graphs (all with 2 to {max_nodes} nodes, random ones with up to 30): ⟨U_i, Λ³U_j⟩ is not the "
        f"number of triangles on {found.wrong} of them. With j = i each triangle counts twice, once in each "
        f"direction: wrong on "
        f"{own.wrong}{example(own, _at_itself(power_as_printed(3)), triangles_by_definition, (0, 0))}. With j = i and "
        f"a factor ½ it holds, to {half.largest_error:.1e} (wrong on {half.wrong})."
    )
    return holds_if(
        found.right, evidence,
        graphs=found.graphs, wrong=found.wrong, wrong_with_j_equal_to_i=own.wrong, wrong_with_half=half.wrong,
    )  # fmt: skip


def _at_itself(form: Encoding) -> Encoding:
    """The same with j = i, in every column."""
    return lambda A: _in_columns(np.diagonal(form(A)))


def _in_columns(values: Array) -> Array:
    """(n,) → (n, n)."""
    return np.repeat(values[:, None], len(values), axis=1)
