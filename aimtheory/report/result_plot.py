"""Any result as a figure: its labelled arrays as lines, or its numbers as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from aimtheory.errors import InputError
from aimtheory.records import Result, Variable, kind_of
from aimtheory.report.style import GREY, LINES, colour, new_figure, observable_label, plain_text

_MOST_PANELS, _MOST_LINES, _MOST_ROWS = 4, 8, 40
_WIDEST = 70


def result_plot(result: Result, names: tuple[str, ...] | None = None) -> Figure:
    """A panel a variable over the last dimension of the result's table, a line an entry of the others; what is
    ``predicted_x`` is a dashed line in the panel of x. A result of single numbers is a table.

    ``names`` chooses the variables, at most four. Raises ``InputError`` for a name that there is not, and when there is
    nothing to draw.
    """
    variables = {item.name: item for item in result.variables()}
    dims = result.frame_dims
    if not dims:
        return _table(result, list(variables.values()))
    axis = variables.get(dims[-1])
    lines = {name: item for name, item in variables.items() if item.dims[-1:] == dims[-1:] and _is_number(item)}
    shown = [n for n in lines if n != dims[-1] and not n.startswith("predicted_") and not n.endswith("_error")]
    for name in names or ():
        if name not in lines:
            raise InputError(f"there is no variable {name!r} to draw; there are {', '.join(shown)}")
    chosen = list(names or shown)[:_MOST_PANELS]
    if not chosen or not np.size(lines[chosen[0]].values):
        raise InputError(f"the {kind_of(result)} holds nothing to draw over {dims[-1]}")
    figure, panels = new_figure(1.8 + 4.2 * len(chosen), 4.0, panels=len(chosen))
    for axes, name in zip(panels, chosen, strict=True):
        table = np.asarray(lines[name].values, dtype=np.float64)
        table = table.reshape(-1, table.shape[-1])
        numbers = axis is not None and _is_number(axis)
        x = np.asarray(axis.values, dtype=np.float64) if axis is not None and numbers else np.arange(table.shape[1])
        dots = "." if len(x) <= 40 else ""
        for n, row in enumerate(table[:_MOST_LINES]):
            axes.plot(x, row, color=colour(n), marker=dots, linewidth=1.3)
        predicted = lines.get(f"predicted_{name}")
        if predicted is not None:
            row = np.asarray(predicted.values, dtype=np.float64).reshape(-1, len(x))[0]
            axes.plot(x, row, color=GREY, linestyle=LINES[1], label="predicted")
            axes.legend(frameon=False, fontsize=8)
        axes.set_xlabel(plain_text(axis.long_name if axis is not None else dims[-1], _WIDEST))
        label = observable_label(name)
        axes.set_ylabel(label if label != name else plain_text(lines[name].long_name, _WIDEST))
    figure.suptitle(kind_of(result), fontsize=10, x=0.01, ha="left")
    return figure


def _is_number(item: Variable) -> bool:
    return np.asarray(item.values).dtype.kind in "fiub"


def _table(result: Result, variables: list[Variable]) -> Figure:
    rows = [(plain_text(item.long_name, _WIDEST), _text(item.values)) for item in variables if not item.dims]
    if not rows:
        raise InputError(f"the {kind_of(result)} holds nothing to draw")
    figure, (axes,) = new_figure(9.0, 0.6 + 0.3 * min(len(rows), _MOST_ROWS))
    axes.set_axis_off()
    axes.set_title(kind_of(result), fontsize=10, loc="left")
    height = 1 / len(rows)
    for n, (name, value) in enumerate(rows[:_MOST_ROWS]):
        axes.text(0.0, 1 - (n + 0.5) * height, name, fontsize=9, color=GREY, va="center", transform=axes.transAxes)
        axes.text(0.45, 1 - (n + 0.5) * height, value, fontsize=9, va="center", transform=axes.transAxes)
    return figure


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{float(value):.10g}"
    return plain_text(str(value), _WIDEST)


__all__ = ["result_plot"]
