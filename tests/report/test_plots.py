"""Figures: what is drawn equals the result it was given, and what is not trusted looks different."""

import argparse
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

import aimtheory as aim
from aimtheory.cli import main
from aimtheory.cli.plot import draw
from aimtheory.dynamics import truncation_study
from aimtheory.errors import InputError
from aimtheory.report import comparison_plot, graph_plot, save_figure, spectrum_plot, trajectory_plot, truncation_plot
from aimtheory.report.style import OKABE_ITO, UNTRUSTED_LINE, observable_label, time_label
from aimtheory.simulate import sgd
from aimtheory.spectra import SpectralMeasure


@pytest.fixture(scope="module")
def softmax():
    return aim.models.load("tied-softmax")


@pytest.fixture(scope="module")
def gns(softmax):
    return aim.solve(softmax, degree=9, times=np.linspace(0, 1, 5))


@pytest.fixture(scope="module")
def zero(softmax):
    run = aim.solve(softmax, degree=6, times=np.linspace(0, 2, 5), closure="zero")
    assert 0 < run.trusted_until < 2
    return run


@pytest.fixture(scope="module")
def simulation(softmax):
    return sgd(
        softmax, dim=30, learning_rate=0.05, batch=16, times=np.linspace(0, 1, 3), seeds=range(3),
        observables=["p_12", "t_1"], eigenvalues=["S1"],
    )  # fmt: skip


@pytest.fixture(scope="module")
def other():
    """Trajectories of the same parameterization and of one whose time counts otherwise."""
    return {
        name: aim.solve(aim.models.load(name), degree=5, times=[0, 1.0], check=False)
        for name in ("tied-erf", "direct-hermite2")
    }


def test_a_figure_of_two_models_says_so(gns, other, simulation):
    heading = comparison_plot({"gns": gns, "erf": other["tied-erf"]}, simulation).get_suptitle()
    assert heading.splitlines() == ["tied-softmax", "Not one model: erf of another than SGD"]
    heading = comparison_plot({"gns": gns, "erf": other["tied-erf"]}).get_suptitle()
    assert heading.splitlines()[1] == "Not one model: erf of another than gns"
    assert "\n" not in comparison_plot({"gns": gns}, simulation).get_suptitle()


def test_times_in_different_units_share_no_axis(gns, other, simulation):
    direct = other["direct-hermite2"]
    message = r"the times of 'direct' are n alpha_d/d, those of 'tied-softmax' 4 n alpha_d/d"
    with pytest.raises(InputError, match=message):
        comparison_plot({"direct": direct}, simulation)
    with pytest.raises(InputError, match="cannot share an axis"):
        comparison_plot({"gns": gns, "direct": direct})


def test_the_command_warns_of_two_models_and_refuses_two_units(gns, other, simulation, tmp_path, capsys):
    files = {name: tmp_path / f"{name}.nc" for name in ("gns", *other)}
    for name, path in files.items():
        (gns if name == "gns" else other[name]).save(path)
    sgd_file = tmp_path / "sgd.json"
    simulation.save(sgd_file)

    def plot(*arguments):
        return main(["plot", *map(str, arguments), "-o", str(tmp_path / "figure.png"), "--force"])

    assert plot(files["tied-erf"], sgd_file) == 0
    said = capsys.readouterr().err
    assert "the theory is of another model" in said
    assert "different units" not in said
    assert plot(files["gns"], files["tied-erf"]) == 0
    assert "the trajectories are not of one model" in capsys.readouterr().err
    assert plot(files["gns"], sgd_file) == 0
    assert capsys.readouterr().err == ""
    assert plot(files["direct-hermite2"], sgd_file) == 2
    assert "cannot share an axis" in capsys.readouterr().err
    assert plot(files["direct-hermite2"], sgd_file, "--spectrum", "1") == 2
    assert "t = 1 is two times" in capsys.readouterr().err
    # Files of one name in two folders are two curves.
    (tmp_path / "again").mkdir()
    gns.save(tmp_path / "again" / "gns.nc")
    results = {str(path): gns for path in (files["gns"], tmp_path / "again" / "gns.nc")}
    figure = draw(results, argparse.Namespace(observables=None, spectrum=None))
    assert len({line.get_label() for line in lines_with(figure.axes[0])}) == 2


def lines_with(axes, least=3):
    return [line for line in axes.get_lines() if len(line.get_xdata()) >= least]


def test_the_trajectory_drawn_is_the_trajectory_solved(gns):
    figure = trajectory_plot(gns, ["p_12"])
    assert isinstance(figure, Figure)
    (line,) = lines_with(figure.axes[0])
    drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    # The dense output is drawn; at the requested times it goes through the solved values (to its own tolerance).
    for time, value in zip(gns.times, gns["p_12"], strict=True):
        assert drawn[time] == pytest.approx(value, abs=1e-7)
    assert line.get_linestyle() == "-"


def test_values_past_trust_are_faded_dotted_and_marked(zero):
    figure = trajectory_plot(zero, ["p_12", "t_1"])
    axes = figure.axes[0]
    faded = [line for line in lines_with(axes) if line.get_alpha() is not None]
    plain = [line for line in lines_with(axes) if line.get_alpha() is None]
    assert len(faded) == len(plain) == 2
    for line in plain:
        assert max(line.get_xdata()) == pytest.approx(zero.trusted_until)
    for line in faded:
        assert min(line.get_xdata()) == pytest.approx(zero.trusted_until)
        assert max(line.get_xdata()) == 2
        assert line.get_alpha() < 1
        assert line._unscaled_dash_pattern[1] == list(UNTRUSTED_LINE[1]) or tuple(
            line._unscaled_dash_pattern[1]
        ) == tuple(UNTRUSTED_LINE[1])
    marks = [line for line in axes.get_lines() if list(line.get_xdata()) == [zero.trusted_until] * 2]
    assert len(marks) == 1
    assert any("trusted until" in text.get_text() for text in axes.texts)


def test_a_trajectory_without_times_or_names_is_refused(gns):
    with pytest.raises(InputError, match="no observables"):
        trajectory_plot(gns, [])


def test_error_bars_are_standard_errors(gns, simulation):
    figure = comparison_plot(gns, simulation, ["p_12"])
    (bars,) = figure.axes[0].containers
    points = bars.lines[0]
    assert np.allclose(points.get_ydata(), simulation.mean("p_12"))
    assert np.allclose(points.get_xdata(), simulation.times)
    segments = bars.lines[2][0].get_segments()
    half = [(segment[1, 1] - segment[0, 1]) / 2 for segment in segments]
    # Independent of SgdRun.standard_error: the sample deviation over sqrt(seeds).
    expected = simulation.values["p_12"].std(axis=0, ddof=1) / np.sqrt(3)
    assert np.allclose(half, expected)


def test_comparison_has_a_panel_an_observable_and_a_curve_a_theory(gns, zero, simulation):
    figure = comparison_plot({"gns": gns, "zero": zero}, simulation, ["p_12", "t_1"])
    assert [axes.get_ylabel() for axes in figure.axes] == ["$p_{12}$", "$t_{1}$"]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["gns", "zero", "SGD, d = 30, 3 seeds", "dotted: past trusted_until"]
    colours = {to_hex(line.get_color()) for line in lines_with(figure.axes[0])}
    assert len(colours) >= 2
    with pytest.raises(InputError, match="at least one"):
        comparison_plot({}, None, ["p_12"])


def test_a_simulation_alone_can_be_drawn(simulation):
    figure = comparison_plot({}, simulation, ["t_1"])
    assert len(figure.axes[0].containers) == 1


def test_truncation_figure_marks_the_convergence_time():
    study = truncation_study(
        aim.models.load("exact-linear"), degrees=[4, 6, 8], times=[0.05, 0.1, 0.2, 0.4], closure="zero"
    )
    figure = truncation_plot(study)
    by_degree, by_time = figure.axes
    drawn = np.array([line.get_ydata() for line in by_degree.get_lines()])
    assert np.allclose(drawn.T, study.error)
    assert study.convergence_time in [line.get_xdata()[0] for line in by_time.get_lines() if len(line.get_xdata()) == 2]
    markers = [line.get_marker() for line in by_degree.get_lines()]
    assert len(set(markers)) == len(markers)


def test_spectrum_density_integrates_to_one_and_states_its_resolution(gns, simulation):
    measure = gns.spectral_measure(1.0)
    figure = spectrum_plot(measure, simulation.eigenvalues["S1"][:, -1], time=1.0, resolution=0.15)
    density, integral = figure.axes
    for line in lines_with(density):
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1.0, abs=3e-3)
    area = sum(patch.get_width() * patch.get_height() for patch in density.patches)
    assert area == pytest.approx(1.0)
    assert any("0.15" in text.get_text() for text in density.get_legend().get_texts())
    assert max(integral.get_lines()[-1].get_ydata()) == pytest.approx(1.0)


def test_the_exact_spectrum_is_drawn_between_its_edges():
    """A student of rank 3/10: an atom of mass 7/10 at 0, a band away from it, nothing below 0."""
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="tied",
        student=aim.Wishart(width="3/10", trace=1), teacher=aim.Wishart(width=1, trace=1),
    )  # fmt: skip
    law = aim.solve(model, times=[0, 1.0], check=False).spectral_law(1.0)
    flow = aim.solve(model, closure="matrix", dim=100, times=[0, 1.0], check=False)
    eigenvalues = flow.spectral_measure(1.0).nodes
    figure = spectrum_plot(law, eigenvalues, time=1.0)
    density, integral = figure.axes
    (line,) = lines_with(density)
    assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(0.3, abs=1e-3)
    assert line.get_xdata().min() > 0
    assert "0.7" in [text.get_text() for text in density.texts]
    area = sum(patch.get_width() * patch.get_height() for patch in density.patches)
    assert area == pytest.approx(0.3)
    drawn = next(line for line in integral.get_lines() if line.get_label() == "theory, exact")
    empirical = np.searchsorted(eigenvalues, drawn.get_xdata(), side="right") / len(eigenvalues)
    away = np.abs(drawn.get_xdata()) > 0.05
    assert np.abs(empirical - drawn.get_ydata())[away].max() < 0.05
    with pytest.raises(InputError, match="not smoothed"):
        spectrum_plot(law, resolution=0.1)


def test_spectrum_of_a_single_atom_and_bad_eigenvalues():
    atom = SpectralMeasure(np.array([2.0]), np.array([1.0]))
    assert isinstance(spectrum_plot(atom), Figure)
    with pytest.raises(InputError, match="NaN"):
        spectrum_plot(atom, [1.0, np.nan])


def test_graph_has_a_box_a_word_and_refuses_too_many(softmax):
    hierarchy = aim.derive(softmax, 3)
    figure = graph_plot(hierarchy)
    axes = figure.axes[0]
    boxes = [text for text in axes.texts if text.get_bbox_patch() is not None]
    assert len(boxes) == len(hierarchy) + len(hierarchy.missing)
    assert {text.get_text() for text in boxes} >= {observable_label(name) for name in hierarchy.names}
    arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None) is not None]
    assert len(arrows) == hierarchy.graph.number_of_edges()
    # Columns are degrees: every arrow of the tied hierarchy goes one column to the right.
    assert all(arrow.xy[0] > arrow.xyann[0] for arrow in arrows)
    with pytest.raises(InputError, match="too many"):
        graph_plot(aim.derive(softmax, 10))


def test_self_loops_and_arrows_inside_a_column_are_drawn():
    hierarchy = aim.derive(aim.models.load("direct-linear"), 2)
    loops = sum(1 for u, v in hierarchy.graph.edges if u == v)
    figure = graph_plot(hierarchy)
    assert loops > 0
    assert sum(text.get_text() == "\u21bb" for text in figure.axes[0].texts) == loops


@pytest.mark.parametrize("suffix", [".png", ".pdf", ".svg"])
def test_figures_are_written_in_the_format_of_the_suffix(gns, tmp_path, suffix):
    path = save_figure(trajectory_plot(gns, ["p_12"]), tmp_path / f"figure{suffix}")
    head = path.read_bytes()[:300]
    assert {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[suffix] in head
    with pytest.raises(InputError, match="suffix"):
        save_figure(Figure(), tmp_path / "figure.txt")


def test_labels_have_symbols_and_units(softmax):
    assert observable_label("q1_12") == "$q^{(1)}_{12}$"
    assert observable_label("tr(S1 S2)") == r"$\mathrm{tr}(S_{1} S_{2})$"
    assert r"$t = 4\,n\,\alpha_d/d$" in time_label(softmax)
    assert r"$t = \,n\,\alpha_d/d$" in time_label(aim.models.load("direct-linear"))
    assert len(set(OKABE_ITO)) == 7


def test_no_global_plotting_state_is_touched():
    code = (
        "import sys, aimtheory as aim; from aimtheory.report import graph_plot, save_figure; "
        "save_figure(graph_plot(aim.derive(aim.models.load('exact-linear'), 2)), sys.argv[1]); "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code, f"{folder}/g.png"], capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "False"
