"""Attention outputs: the loss of forms and explicit traces against the plain squared error of a network at finite d."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.model.losses import ExpressionLoss, trace_symbol

C = np.array([[1.0, 0.4, 0.1], [0.4, 1.5, -0.2], [0.1, -0.2, 0.8]])


@pytest.mark.parametrize("covariance", [np.eye(3), C])
def test_the_loss_is_the_quadratic_form_of_the_outputs(covariance):
    """½ Σ_i E |Σ_j (A_ij V_1 − A*_ij V_2)^T x_j|²/d with E x_j x_j'^T = C_jj' 1, V_a given: exact for these moments."""
    rng = np.random.default_rng(0)
    d = 4
    V = rng.standard_normal((2, d, d))
    R = [np.sum(V[a] * V[b]) / d for a, b in ((0, 0), (0, 1), (1, 1))]
    loss = aim.ValueLoss("softmax")
    forms = rng.standard_normal((5, 3, 3, 2))
    A = [loss.student(forms[..., k]) for k in range(2)]
    expected = []
    for n in range(5):
        mixed = np.einsum("ij,ab->ijab", A[0][n], V[0]) - np.einsum("ij,ab->ijab", A[1][n], V[1])
        expected.append(0.5 * np.einsum("ijab,jk,ikab->", mixed, covariance, mixed) / d)
    assert loss.at(R, covariance).value(forms) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("activation", ["softmax", "linear", "erf"])
def test_gradients_against_differences_and_the_formula(activation):
    rng = np.random.default_rng(1)
    loss = aim.ValueLoss(activation, "linear", students=(0, 2), teachers=(1,), student_weights=(1, "1/2"))
    assert loss.traces == ("R_11", "R_12", "R_13", "R_22", "R_23", "R_33")
    R = rng.uniform(0.5, 1.5, 6)
    forms = rng.standard_normal((3, 3, 3))
    here = loss.at(R, C)
    gradient, by_trace = here.gradient(forms), loss.trace_gradient(forms, R, C)
    h = 1e-6
    for index in [(0, 0, 0), (1, 2, 1), (2, 0, 2)]:
        step = np.zeros_like(forms)
        step[index] = h
        slope = (here.value(forms + step) - here.value(forms - step)) / (2 * h)
        assert gradient[index] == pytest.approx(float(slope), rel=1e-7, abs=1e-8)
    for r in range(6):
        step = np.zeros(6)
        step[r] = h
        slope = (loss.at(R + step, C).value(forms) - loss.at(R - step, C).value(forms)) / (2 * h)
        assert by_trace[r] == pytest.approx(float(slope), rel=1e-7, abs=1e-9)
    G = sp.IndexedBase("G")
    values = {G[i, j, k]: forms[i, j, k] for i in range(3) for j in range(3) for k in range(3)}
    known = {trace_symbol(name): value for name, value in zip(loss.traces, R, strict=True)}
    formula = loss.expression_at(3, [trace_symbol(n) for n in loss.traces], sp.Matrix(C)).subs(known).subs(values)
    assert float(formula) == pytest.approx(float(here.value(forms)), rel=1e-12)


def population(model):
    from aimtheory.population import population_loss

    return population_loss(model)


@pytest.mark.parametrize(("tokens", "covariance"), [(2, None), (2, [[1, 0.5], [0.5, 2]]), (3, None)])
def test_population_loss_of_values_against_monte_carlo(tokens, covariance):
    """Φ and its gradients by likelihood ratios, which share nothing with the cubature; six standard errors."""
    model = replace(aim.models.load("tied-softmax-values"), contexts=((1, tokens, covariance),))
    phi = population(model)
    q, R = np.array([[1.5, 0.7], [0.7, 2.0]]), np.array([1.1, 0.4, 1.3])
    gradient, by_trace, error = phi.tied_gradients(q, R)
    sampled = phi.sampled(np.zeros(2), q, q, R, samples=1 << 16)
    assert np.all(np.abs(gradient - 2 * sampled.plus) < 12 * sampled.plus_error + error)
    assert phi.tied_value(q, R).value == pytest.approx(sampled.value, abs=6 * sampled.value_error)
    # Linear in R: Φ = Σ R ∂Φ/∂R.
    assert by_trace @ R == pytest.approx(phi.tied_value(q, R).value, rel=1e-10)


def test_closed_form_of_linear_attention_values():
    """Linear attention, one token: ½ E (R_11 G_1² − 2 R_12 G_1 G_2 + R_22 G_2²) with Cov G = 2 q."""
    model = aim.models.load("tied-softmax-values")
    model = replace(model, contexts=((1, 1),), loss=aim.ValueLoss("linear"))
    phi = population(model)
    q11, q12, q22, *R = sp.symbols("q_11 q_12 q_22 R_11 R_12 R_22", real=True)
    value = phi.symbolic_value([0, 0], sp.Matrix([[q11, q12], [q12, q22]]), sp.Matrix([[q11, q12], [q12, q22]]))
    assert sp.expand(value - (R[0] * q11 - 2 * R[1] * q12 + R[2] * q22)) == 0


def test_drift_of_the_built_in_model_is_that_of_the_joint_dynamics():
    """dV_1/ds = −L [a(1,1) V_1 − a(1,2) V_2] in t = 4 s: ∂Φ/∂R_11 = (L/2) a(1,1), ∂Φ/∂R_12 = −L a(1,2)."""
    model = aim.models.load("tied-softmax-values")
    assert model.clock == 4
    h = aim.derive(model, 2)
    f11, f12 = sp.symbols("dPhi_R_11 dPhi_R_12", real=True)
    mu = {name: sp.Symbol(name, real=True) for name in h.names}
    expected = -f11 * mu["tr(V1 V1^T)"] - f12 * mu["tr(V1 V2^T)"] / 2
    assert sp.expand(h.equations["tr(V1 V1^T)"] - expected) == 0
    tied = aim.derive(aim.models.load("tied-softmax"), 2)
    assert h.equations["tr(S1 S2)"] == tied.equations["tr(S1 S2)"]


def test_joint_dynamics_by_compression_and_by_matrices():
    """Queries, keys and values at once: gns, its next degree, and the flow on matrices of d = 120."""
    model = aim.models.load("tied-softmax-values")
    names = ["t_1", "p_12", "R_11", "R_12", "loss"]
    options = {"times": [0, 1, 2], "observables": names, "check": False, "rtol": 1e-7, "atol": 1e-9}
    low, high = (aim.solve(model, degree=degree, **options) for degree in (5, 7))
    flow = aim.solve(model, degree=3, closure="matrix", dim=120, seed=1, **options)
    for name in names:
        assert high[name] == pytest.approx(low[name], abs=2e-2)
        assert high[name] == pytest.approx(flow[name], abs=6e-2)
    # The joint dynamics by the exact flow of S and V = a V(0) + b V_2: R_12 at t = 1, 2 is .2559 and .4403.
    assert high["R_12"][1:] == pytest.approx([0.2559, 0.4403], abs=1e-3)


def test_contexts_are_a_weighted_mixture():
    """Φ of a mixture is the weighted sum, in theory and in the loss that SGD measures."""
    single = aim.models.load("tied-softmax")
    mixed = replace(single, contexts=(("1/4", 2), ("3/4", 3, [[1, 0.2, 0.2], [0.2, 1, 0.2], [0.2, 0.2, 1]])))
    q = np.array([[1.2, 0.3], [0.3, 0.9]])
    parts = [replace(single, contexts=((1, c.tokens, c.token_covariance),)) for c in mixed.contexts]
    values = [population(part).tied_value(q).value for part in parts]
    slopes = [population(part).tied_gradients(q)[0] for part in parts]
    assert population(mixed).tied_value(q).value == pytest.approx(0.25 * values[0] + 0.75 * values[1], rel=1e-12)
    assert population(mixed).tied_gradients(q)[0] == pytest.approx(0.25 * slopes[0] + 0.75 * slopes[1], rel=1e-12)
    run = aim.simulate.sgd(
        mixed, dim=40, learning_rate=1e-3, batch=8, times=[0, 0.01], seeds=range(4), loss_samples=8192,
        observables=["loss", "q_11", "q_12", "q_22"],
    )  # fmt: skip
    overlaps = [np.array([[a, b], [b, c]]) for a, b, c in zip(run["q_11"], run["q_12"], run["q_22"], strict=True)]
    expected = population(mixed).tied_value(overlaps[0]).value
    # Finite d: O(d^{-1/2}) at most, beside the sampling error of 4 x 8192 losses.
    assert run["loss"][0] == pytest.approx(expected, rel=0.1)


def test_sgd_steps_through_explicit_traces():
    """The gradient of 𝓛(G(θ); R(θ)) by every trained letter against finite differences of the batch loss."""
    from aimtheory.simulate import initial_parameters, loss_and_gradient

    model = aim.models.load("tied-softmax-values")
    dim = 12
    matrices = initial_parameters(model, dim, seed=3)
    tokens = np.random.default_rng(4).standard_normal((6, 2, dim))
    _, gradient = loss_and_gradient(model, matrices, tokens)
    assert set(gradient) == {"W1", "V1"}
    rng = np.random.default_rng(5)
    for letter in gradient:
        direction = rng.standard_normal(matrices[letter].shape)
        up, down = (
            loss_and_gradient(model, {**matrices, letter: matrices[letter] + s * 1e-5 * direction}, tokens)[0]
            for s in (1, -1)
        )
        assert np.vdot(gradient[letter], direction) == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-9)


def test_an_expression_of_forms_and_traces():
    """Not linear in the trace: its derivative by R against differences of Φ."""
    loss = ExpressionLoss("log(1 + exp(-(G[0,0,0] + 2*R)))", 1, 2, traces=("R",))
    base = aim.models.load("tied-linear")
    model = replace(base, traces=(aim.Trace("R", "W1 W1^T W2 W2^T"),), loss=loss)
    phi = population(model)
    q = np.array([[0.6, 0.2], [0.2, 1.0]])
    _, by_trace, _ = phi.tied_gradients(q, [0.3])
    slope = (phi.tied_value(q, [0.3 + 1e-4]).value - phi.tied_value(q, [0.3 - 1e-4]).value) / 2e-4
    assert by_trace[0] == pytest.approx(slope, rel=1e-6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    direct = weights @ np.log1p(np.exp(-(np.sqrt(1.2) * nodes + 0.6))) / np.sqrt(2 * np.pi)
    assert phi.tied_value(q, [0.3]).value == pytest.approx(float(direct), rel=1e-9)
