"""The exactly solvable case of [D] D.3: closed forms against the flow, and the zero closure's divergence."""

import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aimtheory as aim
from aimtheory.dynamics import eigenvalue_solution, first_moment, riccati_solution
from aimtheory.model import tied
from aimtheory.spectra import MatrixFamily


@pytest.fixture(scope="module")
def model():
    return aim.models.load("exact-linear")


def constant_teacher(student, level):
    """D.3 with S_2 = c 1."""
    return aim.AttentionModel.of(
        tied(1, student),
        tied(2, aim.Atomic([level], [1]), trained=False),
        contexts=((1, 1),),
        loss=aim.models.load("exact-linear").loss,
    )


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(6, 6), (6, 3), (5, 8)]),
    st.floats(0.01, 1.5),
    st.floats(0.5, 3),
    st.floats(-3, -0.5),
)
@settings(max_examples=40, deadline=None)
def test_closed_form_solves_the_riccati_flow(seed, shape, time, a, b):
    """(343) against dS_1/dt = -2 a S_1^2 - b (S_1 S_2 + S_2 S_1) by differences, singular S_1, S_2 included."""
    rng = np.random.default_rng(seed)
    dim, rank = shape
    w, v = rng.standard_normal((dim, rank)) / 2, rng.standard_normal((dim, dim - 1)) / 2
    student, teacher = w @ w.T, v @ v.T

    def at(t):
        return riccati_solution(student, teacher, t, gradient_11=a, gradient_12=b)

    here, step = at(time), 1e-5
    slope = (at(time + step) - at(time - step)) / (2 * step)
    expected = -2 * a * here @ here - b * (here @ teacher + teacher @ here)
    assert np.abs(slope - expected).max() < 1e-6 * (1 + np.abs(expected).max())
    assert np.abs(at(0.0) - student).max() < 1e-10


def test_closed_form_equals_the_source_formula_when_everything_is_invertible():
    rng = np.random.default_rng(3)
    g, h = rng.standard_normal((2, 5, 9)) / 3
    first, second, time = g @ g.T, h @ h.T, 0.7
    values, vectors = np.linalg.eigh(second)
    decay = (vectors * np.exp(-2 * values * time)) @ vectors.T
    inner = decay @ np.linalg.inv(first) @ decay + (vectors * ((1 - np.exp(-4 * values * time)) / values)) @ vectors.T
    assert np.abs(np.linalg.inv(inner) - riccati_solution(first, second, time)).max() < 1e-11


def test_eigenvalues_follow_347():
    start, level = np.array([0.0, 0.3, 1.0, 2.5]), 0.8
    for time in (0.0, 0.4, 2.0):
        matrix = riccati_solution(np.diag(start), level * np.eye(4), time)
        assert np.abs(np.diag(matrix) - eigenvalue_solution(start, level, time)).max() < 1e-12


@pytest.mark.parametrize("level", [1.0, 2.0])
def test_gns_agrees_with_348_for_a_constant_teacher(level):
    """S_2 = c 1, S_1(0) a Wishart away from 0: gns is Gauss quadrature of (348), 1e-8 at all times."""
    law = aim.Wishart(width=2, trace=1)
    times = np.array([0.0, 0.1, 0.2, 0.5, 1.0, 2.0])
    run = aim.solve(
        constant_teacher(law, level),
        degree=81,
        times=times,
        check=False,
        rtol=1e-11,
        atol=1e-13,
        observables=["t_1", "q_12"],
    )
    exact = first_moment(law, level, times)
    assert np.abs(run["t_1"] - exact).max() < 1e-8
    assert np.abs(run["q_12"] - level * exact).max() < 1e-8 * level


def test_gns_agrees_with_348_at_a_hard_edge():
    """Width 1 has its spectrum down to 0, the hardest case of the quadrature: 1e-8 up to t = 0.2."""
    law = aim.Wishart(width=1, trace=1)
    times = np.array([0.05, 0.1, 0.2])
    run = aim.solve(
        constant_teacher(law, 1.0), degree=81, times=times, check=False, rtol=1e-11, atol=1e-13, observables=["t_1"]
    )
    assert np.abs(run["t_1"] - first_moment(law, 1.0, times, nodes=2000)).max() < 1e-8


def test_first_moment_against_direct_quadrature():
    """The Gauss rule of (348) against mpmath's quadrature of the Marchenko-Pastur density."""
    law = aim.Wishart(width=2, trace=1)
    low, high = law.support[0]
    with mpmath.workdps(20):
        for time in (0.1, 0.6):
            value = mpmath.quad(
                lambda x, t=time: float(law.density(np.array([float(x)]))[0]) * x / (x + (1 - x) * mpmath.exp(-4 * t)),
                mpmath.linspace(low, high, 5),
            )
            assert abs(float(value) - first_moment(law, 1.0, time)[0]) < 1e-7


def test_first_moment_of_atoms_is_a_finite_sum():
    law = aim.Atomic([0.5, 1.5], ["1/4", "3/4"])
    expected = 0.25 * eigenvalue_solution(0.5, 1.0, 0.3) + 0.75 * eigenvalue_solution(1.5, 1.0, 0.3)
    assert abs(first_moment(law, 1.0, 0.3)[0] - expected) < 1e-12


def test_degree_13_within_3e_6_of_degree_17(model):
    values = {
        degree: aim.solve(model, degree=degree, times=[0.2], check=False, observables=["t_1", "q_12"])
        for degree in (13, 17)
    }
    for name in ("t_1", "q_12"):
        assert abs(values[13][name][0] - values[17][name][0]) < 3e-6


@pytest.mark.slow
def test_divergence_table_of_the_zero_closure(model):
    """Max error in mu_1, mu_12 of the zero closure against (343) at d = 600, M = 4, 8, 12, t = .05, .1, .2, .5.

    The table was found with an independent dense prototype at d = 600.
    """
    table = np.array(
        [[8.0e-4, 6.1e-3, 4.9e-2, 9.7e-1], [2.9e-6, 3.0e-4, 5.5e-2, 4.7e1], [1.6e-8, 2.7e-5, 7.9e-2, 2.6e3]]
    )
    dim = 600
    sampled = model.sample(dim, np.random.default_rng(0))
    first, second = sampled["W1"], sampled["W2"]
    student, teacher = first @ first.T, second @ second.T

    def exact(name, times):
        solutions = [riccati_solution(student, teacher, t) for t in times]
        other = np.eye(dim) if name == "t_1" else teacher
        return np.array([np.vdot(s, other) / dim for s in solutions])

    study = aim.truncation_study(
        model,
        degrees=[4, 8, 12],
        times=[0.05, 0.1, 0.2, 0.5],
        observables=["t_1", "q_12"],
        reference=exact,
        initial=MatrixFamily({"S1": student, "S2": teacher}),
    )
    # Two printed digits, and O(1/d) between one sample and the next.
    assert (np.abs(study.error / table - 1) < 0.06).all()
    assert study.reference == "the exact solution"
    assert 0.1 < study.convergence_time < 0.2
    assert study.rate[0] < -1 < 0.5 < study.rate[-1]


def test_truncations_are_taylor_polynomials(model):
    """Degree M reproduces the Taylor series of mu_1 to order M - 1: the error against gns falls like t^M."""
    run = aim.solve(model, degree=17, times=[0.01, 0.02], check=False, rtol=1e-12, atol=1e-14)
    for degree in (3, 4, 5):
        truncated = aim.solve(
            model, degree=degree, closure="zero", times=[0.01, 0.02], check=False, rtol=1e-12, atol=1e-14
        )
        gap = np.abs(truncated["t_1"] - run["t_1"])
        assert abs(np.log2(gap[1] / gap[0]) - degree) < 0.3


def test_many_digits_against_the_symbolic_truncation(model):
    """Degree 3 is (341): mu_1 - 4t(q_11 - q_12) + 8t^2(2 mu_111 - 3 mu_112 + mu_122) = 1/2 + 4 t^2 here."""
    run = aim.solve_to_digits(model, degree=3, times=["1/10", "1/3"], digits=50)
    with mpmath.workdps(60):
        # q_11 = 1/4 * 2 = 1/2 and q_12 = 1/2; mu_111 = 5/8, mu_112 = 1/2, mu_122 = 3/4.
        for time, value in zip(run.times, run["t_1"], strict=True):
            assert abs(value - (mpmath.mpf(1) / 2 + 4 * time**2)) < mpmath.mpf(10) ** -50
    assert run.error < mpmath.mpf(10) ** -50


def test_many_digits_agree_with_floats_and_with_more_digits():
    model = aim.models.load("tied-hermite2")
    floats = aim.solve(model, degree=6, closure="zero", times=[0.02], check=False, rtol=1e-12, atol=1e-14)
    short = aim.solve_to_digits(model, degree=6, times=["1/50"], digits=20)
    long = aim.solve_to_digits(model, degree=6, times=["1/50"], digits=35)
    assert abs(float(long["p_12"][0]) - floats["p_12"][0]) < 1e-11
    assert abs(long["p_12"][0] - short["p_12"][0]) < mpmath.mpf(10) ** -20


@pytest.mark.parametrize(("name", "degree", "time"), [("tied-hermite2", 6, "1/50"), ("tied-erf", 4, "1/10")])
def test_taylor_integration_agrees_with_extrapolation(name, degree, time):
    pytest.importorskip("heyoka")
    model = aim.models.load(name)
    runs = [
        aim.solve_to_digits(model, degree=degree, times=[time], digits=40, integrator=integrator)
        for integrator in ("extrapolation", "taylor")
    ]
    with mpmath.workdps(50):
        assert abs(runs[0]["p_12"][0] - runs[1]["p_12"][0]) < mpmath.mpf(10) ** -40


def test_taylor_integration_asks_for_its_library(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "heyoka", None)
    with pytest.raises(aim.InputError, match=r"aimtheory\[taylor\]"):
        aim.solve_to_digits(model, degree=3, times=["1/10"], integrator="taylor")
    with pytest.raises(aim.InputError, match="unknown integrator 'rk4'"):
        aim.solve_to_digits(model, degree=3, times=["1/10"], integrator="rk4")


def test_many_digits_refuses_what_it_cannot_do(model):
    with pytest.raises(aim.InputError, match="no closed form"):
        aim.solve_to_digits(aim.models.load("tied-softmax"), degree=3, times=["1/10"])
    with pytest.raises(aim.NumericsError, match="blow up"):
        aim.solve_to_digits(aim.models.load("tied-hermite2"), degree=4, times=["1/10"], digits=5)
    with pytest.raises(aim.InputError, match="digits"):
        aim.solve_to_digits(model, degree=3, times=["1/10"], digits=0)
    with pytest.raises(aim.InputError, match="increase"):
        aim.solve_to_digits(model, degree=3, times=["1/10", "1/10"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1, 0]], [[1, 0]], 1.0), "square"),
        (([[1.0, 0.2], [0.0, 1.0]], np.eye(2), 1.0), "not symmetric"),
        ((-np.eye(2), np.eye(2), 1.0), "negative eigenvalue"),
        ((np.eye(2), np.eye(3), 1.0), "one shape"),
        ((np.eye(2), np.eye(2), -1.0), "time"),
        (([[np.nan]], [[1.0]], 1.0), "not finite"),
    ],
)
def test_riccati_bad_input(arguments, message):
    with pytest.raises(aim.InputError, match=message):
        riccati_solution(*arguments)
