"""Draw docs/images/overview.png: the structural overlap p_12(t) of tied softmax attention, theory against online SGD.

Truncations of the hierarchy leave the SGD points one after another; the gns closure stays on them. A few minutes:

    python docs/make_overview.py
"""

from pathlib import Path

import numpy as np

import aimtheory as aim
from aimtheory.report import comparison_plot, save_figure
from aimtheory.simulate import compare, sgd

TARGET = Path(__file__).parent / "images" / "overview.png"


def main() -> None:
    """Solve, simulate, compare, draw."""
    model = aim.models.load("tied-softmax")
    fine = np.linspace(0, 4, 81)
    gns = aim.solve(model, degree=11, times=fine, observables=["p_12"])
    curves = {"gns closure, M = 11": gns}
    for degree in (4, 8, 12):
        curves[f"truncation, M = {degree}"] = aim.solve(
            model, degree=degree, times=fine, closure="zero", observables=["p_12"]
        )
    points = sgd(
        model,
        dim=300,
        learning_rate=0.02,
        batch=150,
        times=np.linspace(0, 4, 11),
        seeds=range(4),
        observables=["p_12"],
    )
    print(compare(gns, points))
    figure = comparison_plot(
        curves, points, ["p_12"], title="tied softmax attention, 2 tokens: overlap with the teacher"
    )
    outside, (axes,) = figure.legends[0], figure.axes
    handles, labels = axes.get_legend_handles_labels()
    note = outside.get_texts()[-1].get_text()
    axes.legend([*handles, outside.legend_handles[-1]], [*labels, note], loc="lower right", frameon=False)
    outside.remove()
    figure.set_size_inches(7.2, 4.1)
    print(save_figure(figure, TARGET, dpi=160))


if __name__ == "__main__":
    main()
