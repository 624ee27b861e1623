"""The picture of a recovery diagram: its panels, its marks, its order."""

from dataclasses import replace

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.report import recovery_diagram_plot, save_figure


@pytest.fixture(scope="module")
def diagram():
    def build(mean, width):
        return aim.AttentionModel.teacher_student(
            tokens=1,
            activation="hermite2",
            parameterization="untied",
            student=aim.GaussianFactors(width, 1, 0.5),
            teacher=aim.Ginibre(1, mean=mean),
        )

    return aim.recovery_diagram(build, first=("teacher mean", [1.0, 0.0, 0.5]), second=("width", [0.5, 1.0]))


def test_velocity_panel_and_crosses(diagram, tmp_path):
    figure = recovery_diagram_plot(diagram)
    axes, bar = figure.axes
    assert axes.get_xlabel() == "teacher mean"
    assert axes.get_ylabel() == "width"
    assert "velocity" in bar.get_ylabel()
    drawn = axes.collections[0].get_array().reshape(2, 3)
    assert np.allclose(drawn, diagram.velocity[[1, 2, 0]].T)
    (crosses,) = axes.lines
    # m*^2 = m_2^2 + v_2 - 3 v_1 with v_1 = width/2: no mean to escape with at m_2 = 1/2, width 1; no signal at m_2 = 0.
    assert set(zip(crosses.get_xdata(), crosses.get_ydata(), strict=True)) == {(0.0, 0.5), (0.0, 1.0), (0.5, 1.0)}
    assert save_figure(figure, tmp_path / "diagram.png") is None or (tmp_path / "diagram.png").stat().st_size > 5000


def test_threshold_panel_when_followed(diagram):
    figure = recovery_diagram_plot(replace(diagram, threshold_time=np.where(diagram.recovers > 0, 0.3, np.nan)))
    assert len(figure.axes) == 4
    assert "threshold time" in figure.axes[-1].get_ylabel()


def test_what_cannot_be_drawn(diagram):
    with pytest.raises(aim.InputError, match="no finite velocity"):
        recovery_diagram_plot(replace(diagram, velocity=np.full((3, 2), np.nan)))
    with pytest.raises(aim.InputError, match="at least two"):
        recovery_diagram_plot(replace(diagram, first=np.array([1.0])))
