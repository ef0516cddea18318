"""How points are drawn: used by :mod:`pointset.reports.picture`."""
