"""The look of all figures: colours safe for colour-blind readers, lines and markers that differ too, units."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import sympy as sp
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from aimtheory.errors import InputError
from aimtheory.files import atomic_file
from aimtheory.model import AttentionModel
from aimtheory.scalars import to_sympy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colour-blind safe palette of Okabe and Ito, strongest contrasts first (its yellow is too pale for lines)."""
LINES: tuple[Any, ...] = (
    "-",
    (0, (7, 2)),
    (0, (5, 1.5, 1, 1.5)),
    (0, (3, 1.2, 1, 1.2, 1, 1.2)),
    (0, (9, 1.5)),
    (0, (3.5, 1)),
    "-",
)
"""Line styles, so that curves differ without colour; a plain short dash is kept for values that are not trusted."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
UNTRUSTED_LINE = (0, (1.5, 2.0))
GREY = "#6b6b6b"
DPI = 150

_SUFFIXES = (".png", ".pdf", ".svg")
_NAMED = re.compile(r"(t|q|q1|q2|p|m)_(\d+(?:,\d+)?)")


class _Figure(Figure):
    """A figure whose text is set by matplotlib itself.

    Names of models and files are not LaTeX, and a user's ``text.usetex`` need not find a LaTeX to run.
    """

    def draw(self, renderer: Any) -> None:
        with mpl.rc_context({"text.usetex": False}):
            for text in self.findobj(Text):
                text.set_usetex(False)
            super().draw(renderer)


def new_figure(width: float, height: float, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure of that size in inches with panels side by side, drawn without any global state.

    >>> figure, axes = new_figure(4, 3)
    >>> len(axes)
    1
    """
    figure = _Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(1, panels, squeeze=False)[0])
    for panel in axes:
        panel.grid(True, color="#e4e4e4", linewidth=0.6)
        panel.set_axisbelow(True)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    return figure, axes


def save_figure(figure: Figure, path: str | Path, dpi: int = DPI) -> Path:
    """Write a figure to a .png, .pdf or .svg file. Raises ``InputError`` for another suffix."""
    target = Path(path)
    if target.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{target} does not end in one of {', '.join(_SUFFIXES)}; the suffix chooses the format")
    with atomic_file(target) as part:
        figure.savefig(part, dpi=dpi)
    return target


def colour(position: int) -> str:
    """The colour of the curve at this position; colours repeat after seven, line styles and markers with them."""
    return OKABE_ITO[position % len(OKABE_ITO)]


def shades(count: int) -> Sequence[tuple[float, float, float, float]]:
    """``count`` ordered colours, dark to light: viridis without its palest end."""
    scale = mpl.colormaps["viridis"]
    return [scale(0.88 * n / max(1, count - 1)) for n in range(count)]


def plain_text(text: str, longest: int = 90) -> str:
    r"""A name as a figure shows it, letter by letter: one line, not too long, and no mathtext.

    >>> plain_text("my $x$\n model")
    'my \\$x\\$ model'
    """
    line = " ".join(text.split())
    line = line if len(line) <= longest else f"{line[: longest - 3]}..."
    # matplotlib leaves labels that begin with an underscore out of legends.
    return (f" {line}" if line.startswith("_") else line).replace("$", r"\$")


def observable_label(name: str) -> str:
    r"""The name of an observable as mathtext: ``p_12`` is $p_{12}$, ``tr(S1 S2)`` is a trace.

    >>> observable_label("p_12")
    '$p_{12}$'
    >>> observable_label("tr(S1 M2^T)")
    '$\\mathrm{tr}(S_{1} M_{2}^{\\top})$'
    """
    match = _NAMED.fullmatch(name)
    if match:
        kind, indices = match.groups()
        symbol = kind if len(kind) == 1 else rf"{kind[0]}^{{({kind[1]})}}"
        return rf"${symbol}_{{{indices}}}$"
    if name == "loss":
        return r"loss $\Phi$"
    if name.startswith("tr(") and name.endswith(")"):
        letters = " ".join(letter_symbol(part) for part in name[3:-1].split())
        return rf"$\mathrm{{tr}}({letters})$"
    return name


def letter_symbol(text: str) -> str:
    """A letter such as ``S1`` or ``M2^T`` in mathtext, without the dollars."""
    base, transposed = (text[:-2], r"^{\top}") if text.endswith("^T") else (text, "")
    match = re.fullmatch(r"([A-Za-z]+)(\d+)", base)
    symbol = rf"{match[1]}_{{{match[2]}}}" if match else rf"\mathrm{{{base}}}".replace("_", r"\_")
    return symbol + transposed


def time_label(model: AttentionModel) -> str:
    r"""The time axis in terms of SGD steps n, learning rate and dimension: t = 4 n alpha_d / d for tied attention."""
    factor = model.clock
    front = "" if factor == 1 else str(sp.latex(to_sympy(factor)))
    return rf"time $t = {front}\,n\,\alpha_d/d$   ($n$ SGD steps, learning rate $\alpha_d$)"


__all__ = [
    "DPI",
    "GREY",
    "LINES",
    "MARKERS",
    "OKABE_ITO",
    "UNTRUSTED_LINE",
    "colour",
    "letter_symbol",
    "new_figure",
    "observable_label",
    "plain_text",
    "save_figure",
    "shades",
    "time_label",
]
