"""The exact dynamics of tied attention: known digits, closed forms, the other closures where they are right."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy import closure
from aimtheory.model.losses import ExpressionLoss

UNIT = aim.Wishart(width=1, trace=1)
SOFTMAX_TIMES = [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4]
SOFTMAX = {
    "p_12": [0.11235667, 0.22108207, 0.32218285, 0.41242687, 0.49016683, 0.55544739, 0.60948817, 0.65402237],
    "t_1": [0.94913174, 0.90825701, 0.87786594, 0.85711027, 0.84430319, 0.83754391, 0.83513546, 0.83573994],
    "q_11": [1.67327602, 1.4565166, 1.32539744, 1.2564386, 1.22933938, 1.22851048, 1.2431683, 1.26641042],
}
"""Two-token softmax, widths and traces 1; an independent program (Gauss rules, root bracketing, LSODA) at 1e-10."""

POWERS = [0.85711027, 1.25643860, 2.24207508, 4.48369670, 9.66805706]
"""tr S_1^k of the same model at t = 2, from its Stieltjes transform on a circle."""


def tied(student, teacher, *, tokens=1, activation="linear", weight_decay=0, loss=None):
    model = aim.AttentionModel.teacher_student(
        tokens=tokens,
        activation=activation,
        parameterization="tied",
        student=student,
        teacher=teacher,
        weight_decay=weight_decay,
    )
    if loss is None:
        return model
    return replace(model, loss=loss)


def exact(model, times, names=("p_12",), **options):
    return aim.solve(model, degree=3, closure="exact", times=times, observables=names, check=False, **options)


def test_softmax_digits():
    powers = [f"tr({' '.join(['S1'] * k)})" for k in range(1, 6)]
    run = exact(aim.models.load("tied-softmax"), SOFTMAX_TIMES, [*SOFTMAX, *powers])
    for name, values in SOFTMAX.items():
        assert run[name] == pytest.approx(values, abs=2e-8)
    assert [float(run[name][3]) for name in powers] == pytest.approx(POWERS, abs=5e-8)
    assert run.status.code == "complete"


@pytest.mark.slow
def test_softmax_long_times():
    run = exact(aim.models.load("tied-softmax"), [10, 30, 100])
    assert run["p_12"] == pytest.approx([0.870595, 0.981108, 0.99859], abs=1e-5)


@pytest.mark.parametrize(
    ("decay", "values"),
    [
        (0, [0.46820674, 0.76632386, 0.96886493, 0.99125659, 0.99600013]),
        (1, [0.45558236, 0.74369518, 0.94783749, 0.9747504, 0.98289339]),
    ],
)
def test_linear_digits(decay, values):
    """Two tokens: the potential is 3 (q_11 + q_22 - 2 q_12)."""
    run = exact(tied(UNIT, UNIT, tokens=2, weight_decay=decay), [0.1, 0.2, 0.5, 1, 2])
    assert run["p_12"] == pytest.approx(values, abs=2e-8)


def test_small_widths_where_gns_is_wrong():
    model = tied(aim.Wishart(width=0.1, trace=0.1), aim.Wishart(width=0.1, trace=0.2))
    run = exact(model, [1, 2, 3], ["p_12", "loss"])
    assert run["p_12"] == pytest.approx([0.210245, 0.355312, 0.386704], abs=1e-6)
    assert run["loss"] == pytest.approx([0.162008, 0.035241, 0.010245], abs=1e-6)


def test_scalar_teacher_closed_form():
    """Loss (G_1 - G_2)^2 with S_2 = c: every eigenvalue follows lambda(t) = c l/(l + (c - l) e^{-4ct})."""
    c, starts = 1.5, np.array([0.2, 1.0, 3.0])
    loss = ExpressionLoss("(G[0,0,0] - G[0,0,1])**2", tokens=1, indices=2)
    model = tied(aim.Atomic(starts), aim.Atomic([c]), loss=loss)
    run = exact(model, [0.1, 0.5, 5.0], ["t_1", "q_11", "q_12", "tr(S1 S1 S1)"])
    lam = c * starts / (starts + (c - starts) * np.exp(-4 * c * run.times[:, None]))
    for name, value in {"t_1": lam, "q_11": lam**2, "q_12": c * lam, "tr(S1 S1 S1)": lam**3}.items():
        assert run[name] == pytest.approx(value.mean(axis=1), rel=1e-8)


def test_matrix_closed_form():
    """The same loss on free matrices, X = S_2: S_1(t) = e^{2Xt} (S_1(0)^{-1} + X^{-1}(e^{4Xt} - 1))^{-1} e^{2Xt}."""
    student, teacher = aim.Wishart(width=1, trace="1/2"), aim.Wishart(width=2, trace=1)
    loss = ExpressionLoss("(G[0,0,0] - G[0,0,1])**2", tokens=1, indices=2)
    names = ["t_1", "q_11", "q_12", "tr(S1 S1 S2)", "tr(S1 S2 S1 S2)"]
    times = [0.05, 0.1, 0.2, 0.5, 1.0]
    run = exact(tied(student, teacher, loss=loss), times, names)
    dim, seeds = 240, 8
    values = np.empty((seeds, len(times), len(names)))
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        x, V = np.linalg.eigh(teacher.sample(dim, rng))
        W = V.T @ student.sample_factor(dim, rng)
        for n, t in enumerate(times):
            E, Y = np.exp(2 * x * t), np.expm1(4 * x * t) / x
            inner = np.eye(W.shape[1]) + W.T @ (Y[:, None] * W)
            S = E[:, None] * (W @ np.linalg.solve(inner, W.T)) * E
            SX = S * x
            products = (S, S @ S, SX, S @ SX, SX @ SX)
            values[seed, n] = [np.trace(product) / dim for product in products]
    mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(seeds)
    ours = np.array([run[name] for name in names]).T
    assert (np.abs(ours - mean) < 4 * error + 2e-4 * np.abs(ours)).all()


def test_zero_closure_inside_its_radius():
    model = tied(UNIT, aim.Wishart(width=2, trace=1))
    names, times = ["t_1", "q_11", "q_12", "tr(S1 S2 S2)"], [0.005, 0.01]
    ours = exact(model, times, names, rtol=1e-12, atol=1e-14)
    gaps = []
    for degree in (6, 10):
        other = aim.solve(
            model, degree=degree, closure="zero", times=times, observables=names, check=False, rtol=1e-12, atol=1e-14
        )
        gaps.append(max(float(np.abs(ours[name] - other[name]).max()) for name in names))
    assert gaps[1] < 1e-9
    assert gaps[0] > 50 * gaps[1]


def test_gns_tends_to_it():
    model = aim.models.load("tied-softmax")
    names, times = ["t_1", "q_11", "p_12", "loss"], [1.0, 2.0]
    ours = exact(model, times, names)
    gaps = []
    for degree in (5, 9, 13):
        other = aim.solve(model, degree=degree, closure="gns", times=times, observables=names, check=False)
        gaps.append(max(float(np.abs(ours[name] - other[name]).max()) for name in names))
    assert gaps[2] < 0.3 * gaps[1] < 0.1 * gaps[0]
    assert gaps[2] < 1e-3


@pytest.mark.parametrize("decay", [1e2, 1e6])
def test_large_weight_decay_is_not_stiff(decay):
    """The state stays bounded, and the explicit integrator takes few steps; eigenvalues die as exp(-decay t/2)."""
    run = exact(tied(UNIT, UNIT, weight_decay=decay), [1.0 / decay, 1.0], ["t_1"])
    assert run.evaluations < 1000
    # To first order in 1/decay the loss plays no part.
    assert run["t_1"][0] == pytest.approx(np.exp(-0.5), abs=4 / decay)
    assert run["t_1"][1] < 1e-9


@pytest.mark.parametrize("activation", ["hermite2", "hermite3", "erf"])
def test_other_activations_against_gns(activation):
    """Early, where degree 11 of gns has converged; g_11 of hermite2 is negative there when q_11 < 1/3."""
    student = aim.Wishart(width=1, trace="1/3")
    model = tied(student, aim.Wishart(width=2, trace=1), activation=activation, weight_decay=0.3)
    names, times = ["t_1", "q_11", "q_12", "loss"], [0.02, 0.15 if activation == "erf" else 0.04]
    ours = exact(model, times, names)
    other = aim.solve(model, degree=11, closure="gns", times=times, observables=names, check=False)
    for name in names:
        assert ours[name] == pytest.approx(other[name], abs=2e-6)


def test_the_spectrum_of_a_trajectory():
    """Density, kernel of conserved mass, edges; between stored times."""
    model = tied(aim.Wishart(width="1/2", trace=1), aim.Atomic(["1/2", 2]))
    run = exact(model, [0.0, 0.5, 1.0], ["t_1", "q_11"])
    law = run.spectrum(0.75)
    assert law.atoms == ((0.0, pytest.approx(0.5, abs=1e-12)),)
    assert law.mass == pytest.approx(1, abs=1e-6)
    for order, name in enumerate(("t_1", "q_11"), start=1):
        assert law.measure().moment(order) == pytest.approx(float(run.at(0.75)[name][0]), rel=1e-5)
    low, high = law.edges[0][0], law.edges[-1][1]
    density = run.spectral_density(0.75, [0.9 * low, law.quantiles([0.75])[0], 1.1 * high])
    assert density[0] == density[2] == 0 < density[1]
    with pytest.raises(aim.errors.InputError, match="exact"):
        aim.solve(model, degree=3, closure="gns", times=[0.1], check=False).spectrum(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("student", ["1/2", "1"])
def test_spectrum_against_the_flow_of_matrices(student):
    """Eigenvalues of W W^T from the parameter flow at d = 800 against the cumulative mass, softmax at t = 2."""
    from scipy.integrate import solve_ivp

    from aimtheory.population import potential

    model = tied(aim.Wishart(width=student, trace=1), UNIT, tokens=2, activation="softmax")
    run, dim = exact(model, [2.0], ["t_1"]), 800
    rng = np.random.default_rng(0)
    W = UNIT.sample_factor(dim, rng) if student == "1" else aim.Wishart(width=student, trace=1).sample_factor(dim, rng)
    X = UNIT.sample(dim, rng)
    Phi = potential(model.loss, 2, model.covariance_matrix)

    def velocity(_, flat):
        factor = flat.reshape(W.shape)
        S = factor @ factor.T
        q11, q12, q22 = np.vdot(S, S) / dim, np.vdot(S, X) / dim, np.vdot(X, X) / dim
        g, _ = Phi.tied_gradient(np.array([[q11, q12], [q12, q22]]))
        return -(g[0, 0] * (S @ factor) + g[0, 1] * (X @ factor)).ravel()

    final = solve_ivp(velocity, (0, 2.0), W.ravel(), rtol=1e-7, atol=1e-9).y[:, -1].reshape(W.shape)
    values = np.linalg.eigvalsh(final @ final.T)
    law = run.spectrum(2.0)
    kept = values > 1e-9
    assert kept.mean() == pytest.approx(1 - sum(m for x, m in law.atoms if x == 0), abs=1e-9)
    places = (np.arange(dim) + 0.5) / dim
    assert np.abs(law.cdf(values) - places)[kept].max() < 0.01


def linear_flow(student, teacher, times, weight_decay=0):
    """t_1, q_11, q_12, q_22 of the one-token linear model, whose couplings g_11 = -g_12 = 1 never change."""
    from scipy.integrate import solve_ivp

    from aimtheory.hierarchy import closure, views
    from aimtheory.hierarchy.closures import ClosureProblem

    model = tied(aim.Wishart(width=student, trace=1), aim.Wishart(width=teacher, trace=1), weight_decay=weight_decay)
    seen = views(model)
    system = closure("exact").close(ClosureProblem(model, seen, 3, None))
    couplings = np.array([{"g_11": 1.0, "g_12": -1.0, "gamma": float(weight_decay)}[c.name] for c in seen.couplings])
    solution = solve_ivp(
        lambda _, state: system.drift(couplings, state),
        (0, times[-1]),
        system.initial,
        t_eval=times,
        method="LSODA",
        rtol=1e-10,
        atol=1e-13,
    )
    words = [seen.parse(text) for text in ("tr(S1)", "tr(S1 S1)", "tr(S1 S2)", "tr(S2 S2)")]
    return np.array([system.moments(words, state) for state in solution.y.T])


@pytest.mark.slow
@pytest.mark.parametrize("student", ["1/10", "1/2", "1", "2"])
@pytest.mark.parametrize("teacher", ["1/10", "1/2", "1", "2"])
def test_long_times(student, teacher):
    """To t = 1e4: recovered, or, at a lower rank, the best approximation of that rank, where q_11 = q_12."""
    values = linear_flow(student, teacher, [1.0, 1e2, 1e4])
    assert np.isfinite(values).all()
    _, q11, q12, q22 = values[-1]
    assert q11 == pytest.approx(q12, rel=1e-5)
    if min(float(sp.Rational(student)), 1) >= min(float(sp.Rational(teacher)), 1):
        assert q12 == pytest.approx(q22, rel=1e-5)
    else:
        assert q12 < 0.999 * q22


@pytest.mark.slow
@pytest.mark.parametrize(("student", "teacher", "limit"), [("1", "1", 2.5), ("2", "1", 2.5), ("1", "1/2", 2.0)])
def test_exponents_of_strong_recovery(student, teacher, limit):
    """||S_1 - S_2||^2/d falls as t^{-5/2} at a hard edge of the teacher and as t^{-2} at a kernel."""
    times = np.array([20.0, 40, 80, 160, 320, 640, 1280])
    values = linear_flow(student, teacher, times)
    gap = values[:, 1] - 2 * values[:, 2] + values[:, 3]
    exponents = -np.diff(np.log(gap)) / np.diff(np.log(times))
    assert exponents[-1] == pytest.approx(limit, abs=0.03)


def test_a_trial_step_that_goes_too_far_is_shortened():
    """hermite3 from a large start: the solver's first guess lands where S_0^{-1} + Y is not positive. It raised there;
    six flows of matrices at d = 40 agree with the run.
    """
    student, teacher = aim.Wishart(width="4/5", trace=2), aim.Wishart(width=2, trace="1/7")
    model = tied(student, teacher, tokens=2, activation="hermite3")
    flow = closure("matrix", dim=40)
    run = aim.solve(model, closure="exact", times=[0, 2e-4], observables=["q_11", "q_12"], check=flow)
    assert run.status.code == "complete"
    assert run.trusted_until == 2e-4
