"""How figures look: one style for all, colours that the colour-blind can tell apart, deterministic SVG."""

from __future__ import annotations

import io
import re
from typing import Any

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#8A8A00", "#7A7A7A")
"""Okabe & Ito (2008), without black, the yellow darkened so that it shows on white as well as on black."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Beside colour, so that lines can be told apart in print."""

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "mango-leaf-kit",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
    "legend.frameon": False,
}


def new_figure(width: float = 7.0, height: float = 4.0, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    """A matplotlib figure with `rows` x `columns` axes, in inches; no window, no global state.

    Returns:
        The figure and its axes (a single one, or an array as `Figure.subplots` gives it).
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasSVG(figure)
        axes = figure.subplots(rows, columns)
    return figure, axes


def plain_numbers(axis: Any) -> None:
    """A logarithmic axis with numbers as people write them, whether it spans many decades or a part of one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high > 4 * low else MaxNLocator(5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def to_svg(figure: Any) -> str:
    """The figure as an SVG element for a page: same figure, same text; black becomes the page's text colour."""
    import matplotlib

    # A legend that was made outside the style's context has a white frame, which hides light text on dark pages.
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if legend is not None:
            legend.set_frame_on(False)
    buffer = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"#000000|(?<=: )black\b", "currentColor", text)
    # Text without a colour of its own is black by default, which dark pages hide.
    return text.replace("<svg ", '<svg fill="currentColor" ', 1)
