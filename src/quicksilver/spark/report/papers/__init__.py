"""The figures of the papers that experiments' points can show, with what the papers say."""

from __future__ import annotations

from quicksilver.spark.report.papers import loads, perturbed, sizes

FIGURES = (*sizes.FIGURES, *perturbed.FIGURES, *loads.FIGURES)
DISTRIBUTIONS = (*perturbed.DISTRIBUTIONS, *loads.DISTRIBUTIONS)
BARS = loads.BARS
