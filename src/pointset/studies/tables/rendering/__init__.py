"""A table's result as Markdown, LaTeX, HTML and JSON: the paper's rows, and ours beside them."""

from pointset.studies.tables.rendering.writing import read_table, written

__all__ = ["read_table", "written"]
