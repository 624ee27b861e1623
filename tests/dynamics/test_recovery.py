"""Weak recovery: velocities against (17), (42) and Corollary 7, proofs of vanishing, verdicts and reasons."""

from dataclasses import replace

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.population import potential


def tied(activation, tokens=1, student=None, teacher=None, **options):
    return aim.AttentionModel.teacher_student(
        tokens=tokens,
        activation=activation,
        parameterization="tied",
        student=student or aim.Wishart(width=1, trace=1),
        teacher=teacher or aim.Wishart(width=1, trace=1),
        **options,
    )


@pytest.mark.parametrize(
    ("activation", "tokens", "student", "teacher"),
    [
        ("softmax", 2, aim.Wishart(1, 1), aim.Wishart(1, 1)),
        ("softmax", 3, aim.Wishart(1, 1), aim.Wishart("1/2", 1)),
        ("hermite3", 1, aim.Wishart(2, "1/2"), aim.Wishart(1, 1)),
        ("erf", 2, aim.Wishart(1, 1), aim.Wishart("1/2", "3/2")),
        ("linear", 1, aim.Atomic([1, 2]), aim.Atomic([0, 1, 3])),
    ],
)
def test_tied_velocity_is_equation_17(activation, tokens, student, teacher):
    """dp_12/dt = -2 [grad Phi]_12 t_1 p_22 at an uninformative start."""
    model = tied(activation, tokens, student, teacher)
    report = aim.recovery(model, follow=False)
    t1, t2 = float(student.mean), float(teacher.mean)
    q = np.array([[float(student.second_moment), t1 * t2], [t1 * t2, float(teacher.second_moment)]])
    gradient, _ = potential(model.loss, tokens).tied_gradient(q)
    assert report.velocity == pytest.approx(-2 * gradient[0, 1] * t1 * (q[1, 1] - t2**2), rel=1e-8)
    assert report.recovers
    assert "PSD symmetry breaking" in report.reason
    assert report.scaling == "Theta(d^2 log d)"
    assert report.samples == "N = T d/(4 alpha_d)"


@pytest.mark.parametrize("mean", [1, -2])
@pytest.mark.parametrize(("width", "left", "right"), [(1, 1, "1/2"), ("1/2", 1, 1)])
def test_untied_velocity_is_equation_42(mean, width, left, right):
    """dq_12/dtau = -2 (t^A + t^B) Q_2 g*_12, g*_12 = -E[sigma'(Z_1)] E[sigma'(Z_2)]/2 (half derivatives), at m*."""
    student, teacher = aim.GaussianFactors(width, left, right), aim.Ginibre(variance=1, mean=mean)
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="hermite2", parameterization="untied", student=student, teacher=teacher
    )
    report = aim.recovery(model, follow=False)
    rho, a, b = (float(x) for x in (student.width, student.left, student.right))
    # h_2' = sqrt(2) x, so E sigma'(Z_k) = sqrt(2) m_k.
    m1 = report.mean[0]
    phi = potential(model.loss, 1)
    overlaps = np.diag([rho * a * b, 1.0])
    assert abs(phi.gradients([m1, mean], overlaps, np.zeros((2, 2))).mean[0]) < 1e-8
    g = -0.5 * (np.sqrt(2) * m1) * (np.sqrt(2) * mean)
    assert report.channels["q1"] == pytest.approx(-2 * (rho * a + rho * b) * g, rel=1e-7)
    assert report.channels["q2"] == pytest.approx(report.channels["q1"], rel=1e-7)
    assert "repaired by the fast mean" in report.reason
    assert report.samples == "N = T d/alpha_d"


def test_direct_velocity_is_corollary_7():
    """dOmega_12/dt = -2 (g1_12 Omega_22 + g2_12 Psi_22), both gradients -1/2 for the linear loss at L = 1."""
    report = aim.recovery(aim.models.load("direct-linear"), follow=False)
    assert report.velocity == pytest.approx(1.0, abs=1e-10)
    assert report.channels["minus"] == pytest.approx(0.0, abs=1e-10)
    assert report.vanishing.verdict == "no"
    goe = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="direct", student=aim.GOE(1), teacher=aim.GOE(1)
    )
    assert aim.recovery(goe, follow=False).velocity == pytest.approx(2.0, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "recovers", "words"),
    [
        ("direct-hermite2", False, "no first-order signal"),
        ("direct-hermite3", False, "no first-order signal"),
        ("untied-hermite2", False, "no first-order signal"),
        ("untied-hermite3", False, "no first-order signal"),
        ("tied-hermite2", True, "PSD symmetry breaking"),
        ("tied-hermite3", True, "PSD symmetry breaking"),
        ("direct-linear", True, "teacher has strength"),
        ("untied-linear", True, "fast flow selects"),
    ],
)
def test_verdicts(name, recovers, words):
    report = aim.recovery(aim.models.load(name), degree=5)
    assert report.recovers is recovers
    assert words in report.reason
    if recovers:
        assert 0 < report.threshold_time < report.horizon
        assert report.samples_at(400, 0.01) == pytest.approx(
            report.threshold_time * 400 / (float(report.model.clock) * 0.01)
        )
        assert report.contraction > 0
        assert report.vanishing.verdict == "no"
    else:
        assert report.velocity == 0
        assert report.vanishing.verdict == "proved"
        assert report.threshold_time is None
        assert report.samples_at(400, 0.01) is None
        assert report.scaling == "not on this scale"
    assert report.reason in str(report)


def test_symmetry_that_survives_the_fast_relaxation():
    """An even student (h_2, m* = 0 stable for a wide one) and a teacher with signal: E sigma'(Z_1) = sqrt(2) m* = 0."""
    model = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="hermite2",
        teacher_activation="linear",
        parameterization="untied",
        student=aim.GaussianFactors(width=1, left=2, right=2),
        teacher=aim.Ginibre(variance=1),
    )
    report = aim.recovery(model, degree=5)
    assert not report.recovers
    assert report.vanishing.verdict == "proved"
    assert not report.vanishing.for_any_mean
    assert "symmetry survives the fast relaxation" in report.reason


def test_numerical_bound_where_there_is_no_closed_form():
    """Direct softmax at T = 2 has no closed form, and its cross-gradient is not zero."""
    soft = aim.AttentionModel.teacher_student(
        tokens=2, activation="softmax", parameterization="direct", student=aim.Ginibre(1), teacher=aim.Ginibre(1)
    )
    report = aim.recovery(soft, follow=False)
    assert report.recovers
    assert report.vanishing.verdict == "no"
    assert report.vanishing.bound > 1e-3


def test_threshold_time_is_where_the_trajectory_says():
    report = aim.recovery(tied("hermite2"), level=0.25, degree=7)
    run = aim.solve(tied("hermite2"), degree=7, closure="gns", times=[0, report.threshold_time], check=False)
    assert run["p_12"][-1] == pytest.approx(0.25, abs=1e-6)


def test_bad_questions():
    with pytest.raises(aim.InputError, match="level"):
        aim.recovery(tied("linear"), level=-1)
    with pytest.raises(aim.InputError, match="horizon"):
        aim.recovery(tied("linear"), horizon=0)
    model = tied("linear")
    both = replace(model, parameters=tuple(replace(p, trained=True) for p in model.parameters))
    with pytest.raises(aim.InputError, match="one trained index"):
        aim.recovery(both)
    flat = tied("linear", teacher=aim.Atomic([1]))
    with pytest.raises(aim.AssumptionError, match="nothing to recover"):
        aim.recovery(flat)


def test_diagram_over_width_and_scale():
    def build(width, trace):
        return tied("linear", student=aim.Wishart(width, trace))

    diagram = aim.recovery_diagram(
        build, first=("width", [0.5, 2.0]), second=("trace", [0.5, 1.0, 2.0]), level=0.05, degree=3, follow=True
    )
    # Linear, L = 1: [grad Phi]_12 = -1, so the velocity is 2 t_1 p_22 = 2 t_1 whatever the width.
    assert np.allclose(diagram.velocity, 2 * np.array([[0.5, 1.0, 2.0]] * 2))
    assert (diagram.recovers == 1).all()
    assert (np.diff(diagram.threshold_time, axis=1) < 0).all()
    assert not diagram.failures


def test_diagram_keeps_what_it_has():
    calls = []

    def build(x, y):
        calls.append((x, y))
        if len(calls) == 3:
            raise KeyboardInterrupt
        teacher = aim.Atomic([1]) if y > 1 else aim.Wishart(1)
        return tied("linear", teacher=teacher)

    diagram = aim.recovery_diagram(build, first=("x", [1, 2]), second=("y", [1, 2]))
    assert np.isfinite(diagram.velocity[0, 0])
    assert np.isnan(diagram.velocity[0, 1])
    assert "nothing to recover" in diagram.failures[0][2]
    assert "interrupted" in diagram.failures[1][2]
    with pytest.raises(aim.InputError, match="finite numbers"):
        aim.recovery_diagram(build, first=("x", []), second=("y", [1]))
