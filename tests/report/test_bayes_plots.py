"""Figures and files of learning curves and phase diagrams: what is drawn and stored equals the result."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from aimtheory.bayes import BranchCurve, FirstOrderTransition, bayes_curve, phase_diagram
from aimtheory.errors import InputError
from aimtheory.report import LearningCurve, MeasuredPoints, mmse_plot, phase_diagram_plot, save_figure


@pytest.fixture(scope="module")
def softmax():
    return LearningCurve(bayes_curve("softmax", 2, "1/2", np.linspace(0, 0.25, 21)), "softmax", 2, "1/2", 0.1875)


@pytest.fixture(scope="module")
def jumping():
    """A curve with a first-order jump, made by hand: only its drawing is at stake."""
    alpha = np.linspace(0, 1, 11)
    mmse = np.where(alpha < 0.45, 1 - alpha / 2, 0.1)
    curve = BranchCurve(alpha, 1 - mmse, mmse, alpha, 0 * alpha, ("converged",) * 11, "equilibrium", "alpha")
    jump = FirstOrderTransition(0.45, (0.44, 0.46), 0.775, 0.1, 0.7)
    return LearningCurve(curve, "general", 2, "1", float("inf"), (jump,))


@pytest.fixture(scope="module")
def diagram():
    return phase_diagram("softmax", 2, width=[0.25, 0.5, 1.0], alpha=np.linspace(0, 0.3, 7))


def curves_of(axes):
    return [line for line in axes.get_lines() if len(line.get_xdata()) > 2]


def test_the_curve_drawn_is_the_curve_solved(softmax):
    (axes,) = mmse_plot(softmax).axes
    (line,) = curves_of(axes)
    assert np.array_equal(line.get_xdata(), softmax.curve.alpha)
    assert np.array_equal(line.get_ydata(), softmax.curve.mmse)
    (threshold,) = (line for line in axes.get_lines() if len(line.get_xdata()) == 2)
    assert set(threshold.get_xdata()) == {0.1875}
    assert "n/d^2" in axes.get_xlabel()


def test_a_threshold_off_the_axis_is_not_drawn(softmax):
    part = replace(softmax, curve=bayes_curve("softmax", 2, "1/2", np.linspace(0, 0.1, 5)))
    (axes,) = mmse_plot(part).axes
    assert len(axes.get_lines()) == 1


def test_no_line_crosses_a_jump_and_the_hard_phase_is_shaded(jumping):
    (axes,) = mmse_plot(jumping).axes
    (line,) = curves_of(axes)
    alpha, mmse = line.get_xdata(), line.get_ydata()
    place = int(np.flatnonzero(np.isnan(mmse))[0])
    assert alpha[place - 1] < 0.45 < alpha[place + 1]
    assert np.count_nonzero(np.isnan(mmse)) == 1
    (band,) = axes.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((0.45, 0.7))
    # Another branch is continuous there.
    (line,) = curves_of(mmse_plot({"a": replace(jumping.curve, branch="uninformed")}).axes[0])
    assert not np.isnan(line.get_ydata()).any()


def test_points_carry_their_errors_and_the_colour_of_their_curve(softmax):
    points = {
        "follows": MeasuredPoints([0.05, 0.1], [0.7, 0.4], [0.02, 0.03], curve=softmax.label),
        "own": MeasuredPoints([0.05], [0.8], color="#123456", joined=True, filled=True),
        "plain": MeasuredPoints([0.15], [0.2]),
    }
    (axes,) = mmse_plot(softmax, points).axes
    line = curves_of(axes)[0]
    drawn = {container.get_label(): container for container in axes.containers}
    data, _, bars = drawn["follows"].lines
    assert to_hex(data.get_color()) == to_hex(line.get_color())
    assert data.get_ydata().tolist() == [0.7, 0.4]
    assert [(s[1, 1] - s[0, 1]) / 2 for s in bars[0].get_segments()] == pytest.approx([0.02, 0.03])
    assert to_hex(drawn["own"].lines[0].get_markerfacecolor()) == "#123456"
    assert drawn["plain"].lines[0].get_linestyle() == "None"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [softmax.label, *points]


def test_curves_of_equal_name_are_told_apart(softmax):
    (axes,) = mmse_plot([softmax, softmax]).axes
    labels = [line.get_label() for line in curves_of(axes)]
    assert labels == [softmax.label, f"{softmax.label} (2)"]
    assert len({line.get_linestyle() for line in curves_of(axes)} | {line.get_color() for line in curves_of(axes)}) > 2


def test_a_logarithmic_figure_leaves_out_zeros(softmax):
    (axes,) = mmse_plot(softmax, logarithmic=True).axes
    (line,) = curves_of(axes)
    assert axes.get_yscale() == "log"
    assert np.array_equal(np.isnan(line.get_ydata()), softmax.curve.mmse == 0)


def test_what_cannot_be_drawn_is_refused(softmax):
    small = bayes_curve("softmax", 2, 0, [0.1, 0.3])
    with pytest.raises(InputError, match="cannot share an axis"):
        mmse_plot({"a": softmax.curve, "b": small})
    with pytest.raises(InputError, match="at least one"):
        mmse_plot({})
    with pytest.raises(InputError, match="not drawn"):
        mmse_plot({"a": softmax.curve}, {"p": MeasuredPoints([0.1], [0.1], curve="b")})
    assert r"\rho" in mmse_plot({"b": small}).axes[0].get_xlabel()


def test_the_diagram_drawn_is_the_diagram_computed(diagram):
    axes, bar = phase_diagram_plot(diagram).axes
    mesh = axes.collections[0]
    assert np.array_equal(np.ma.filled(mesh.get_array(), np.nan), diagram.mmse.T)
    assert mesh.get_clim() == (0.0, 1.0)
    (line,) = axes.get_lines()
    rho = np.array([0.25, 0.5, 1.0])
    # (2 rho - rho^2)/K_2.
    assert line.get_ydata() == pytest.approx((2 * rho - rho**2) / 4)
    assert "MMSE" in bar.get_ylabel()


def test_a_diagram_of_unordered_axes_is_drawn_in_order(diagram):
    shuffled = replace(
        diagram,
        width=diagram.width[::-1],
        alpha=diagram.alpha[::-1],
        mmse=diagram.mmse[::-1, ::-1],
        perfect=diagram.perfect[::-1],
    )
    assert np.array_equal(
        phase_diagram_plot(shuffled).axes[0].collections[0].get_array(),
        phase_diagram_plot(diagram).axes[0].collections[0].get_array(),
    )


def test_missing_points_are_masked_and_hopeless_diagrams_refused(diagram, tmp_path):
    holes = diagram.mmse.copy()
    holes[2] = np.nan
    figure = phase_diagram_plot(replace(diagram, mmse=holes, status="interrupted"))
    assert np.ma.getmaskarray(figure.axes[0].collections[0].get_array())[:, 2].all()
    save_figure(figure, tmp_path / "holes.png")
    with pytest.raises(InputError, match="no finite point"):
        phase_diagram_plot(replace(diagram, mmse=np.full((3, 7), np.nan)))
    with pytest.raises(InputError, match="at least two"):
        phase_diagram_plot(phase_diagram("softmax", 2, width=[0.5], alpha=[0.0, 0.1]))
