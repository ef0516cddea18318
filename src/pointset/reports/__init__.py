"""Pages and pictures of runs, comparisons, searches, graphs and points. Reads run folders, never models or datasets.

>>> from pointset.reports import write_report
>>> write_report("runs/first")  # doctest: +SKIP

A chart is described once (:class:`~pointset.reports.charts.Chart`) and drawn on pages as SVG and in picture files by
matplotlib; colours and widths are in :mod:`~pointset.reports.palette`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pointset.lazy import on_first_use

if TYPE_CHECKING:  # loaded on first use: the command line imports this package before it knows what it will draw
    from pointset.reports.comparison_pictures import draw_comparison as draw_comparison
    from pointset.reports.comparison_pictures import draw_costs as draw_costs
    from pointset.reports.layout import Legend as Legend
    from pointset.reports.layout import Portrait as Portrait
    from pointset.reports.pages import write_comparison as write_comparison
    from pointset.reports.pages import write_report as write_report
    from pointset.reports.pictures import draw_brec as draw_brec
    from pointset.reports.pictures import draw_counting as draw_counting
    from pointset.reports.pictures import draw_distances as draw_distances
    from pointset.reports.pictures import draw_gallery as draw_gallery
    from pointset.reports.pictures import draw_points as draw_points
    from pointset.reports.pictures import draw_theorems as draw_theorems
    from pointset.reports.tuning import draw_history as draw_history
    from pointset.reports.tuning import draw_importance as draw_importance
    from pointset.reports.tuning import write_tuning_report as write_tuning_report
else:
    __getattr__, __dir__, __all__ = on_first_use(__name__)
