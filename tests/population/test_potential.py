"""The potential and its gradients: closed forms, finite differences, (22), (23), direct integrals and Monte Carlo."""

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from aimtheory.errors import InputError
from aimtheory.model.activations import ElementwiseExpression, Erf, Hermite, Polynomial, Softmax
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, MeanSquaredError
from aimtheory.population import GaussianLaw, OrderParameters, potential
from aimtheory.population.closed_forms import isserlis


def parameters(count, seed=0, scale=0.6):
    """Random (m, q1, q2) with q1 ± q2 positive semidefinite."""
    rng = np.random.default_rng(seed)
    plus, minus = rng.standard_normal((2, count, count + 2)) * scale
    return (
        rng.standard_normal(count) * 0.4,
        (plus @ plus.T + minus @ minus.T) / 2,
        (plus @ plus.T - minus @ minus.T) / 2,
    )


def token_covariance(tokens):
    c = np.full((tokens, tokens), 0.3) + 0.7 * np.eye(tokens)
    c[0, 0] = 1.4
    return c


def finite_differences(phi, mean, q1, q2, step=1e-4):
    count = len(mean)
    by_mean, by_q1, by_q2 = np.zeros(count), np.zeros((count, count)), np.zeros((count, count))

    def value(*arguments):
        return phi.value(*arguments).value

    for k in range(count):
        shift = np.eye(count)[k] * step
        by_mean[k] = (value(mean + shift, q1, q2) - value(mean - shift, q1, q2)) / (2 * step)
        for n in range(k + 1):
            shift = np.zeros((count, count))
            shift[k, n] = shift[n, k] = step
            half = 1.0 if k == n else 0.5
            by_q1[k, n] = by_q1[n, k] = half * (value(mean, q1 + shift, q2) - value(mean, q1 - shift, q2)) / (2 * step)
            by_q2[k, n] = by_q2[n, k] = half * (value(mean, q1, q2 + shift) - value(mean, q1, q2 - shift)) / (2 * step)
    return by_mean, by_q1, by_q2


HEADS = MeanSquaredError("softmax", "softmax", (0, 2), (1,), student_weights=(0.5, 0.5))
CASES = [
    (MeanSquaredError("linear"), 1),
    (MeanSquaredError("hermite2"), 2),
    (MeanSquaredError("hermite3", "hermite2"), 3),
    (MeanSquaredError(Polynomial([0.3, 1, -0.5, 0.2]), "hermite2"), 2),
    (MeanSquaredError("erf"), 2),
    (MeanSquaredError(ElementwiseExpression("tanh(x)"), Erf(2)), 3),
    (MeanSquaredError("softmax"), 2),
    (MeanSquaredError("softmax"), 3),
    (MeanSquaredError("softmax", "erf"), 2),
    (HEADS, 2),
    (CrossEntropy(), 2),
    (CrossEntropy(), 3),
    (CrossEntropy(Softmax(2), Softmax(0.5), (0, 2), (1, 3), teacher_weights=None), 2),
    (CrossEntropy(Softmax(), Softmax(), (1,), (0, 2), teacher_weights=("1/3", "2/3")), 2),
    (ExpressionLoss("log(1 + (G[0,0,0] - tanh(G[0,1,1]))**2) + G[1,0,1]*G[0,0,0]", 2, 2), 2),
]


@pytest.mark.parametrize(("loss", "tokens"), CASES, ids=lambda v: str(v)[:60])
def test_gradients_are_the_finite_differences_of_the_value(loss, tokens):
    mean, q1, q2 = parameters(loss.indices)
    phi = potential(loss, tokens, token_covariance(tokens))
    found = phi.gradients(mean, q1, q2)
    assert found.error < 1e-6
    for name, expected in zip(("mean", "q1", "q2"), finite_differences(phi, mean, q1, q2), strict=True):
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(("loss", "tokens"), CASES, ids=lambda v: str(v)[:60])
def test_mean_hessian_is_the_finite_difference_of_the_mean_gradient(loss, tokens):
    mean, q1, q2 = parameters(loss.indices, seed=4)
    phi, step = potential(loss, tokens, token_covariance(tokens)), 1e-4
    columns = [
        (phi.gradients(mean + shift, q1, q2).mean - phi.gradients(mean - shift, q1, q2).mean) / (2 * step)
        for shift in np.eye(loss.indices) * step
    ]
    np.testing.assert_allclose(phi.mean_hessian(mean, q1, q2), np.array(columns), atol=2e-6)


@pytest.mark.parametrize(("loss", "tokens"), CASES, ids=lambda v: str(v)[:60])
def test_tied_line_is_the_restriction(loss, tokens):
    _, q1, _ = parameters(loss.indices, seed=1)
    phi = potential(loss, tokens, token_covariance(tokens))
    zero = np.zeros(loss.indices)
    assert phi.tied_value(q1).value == pytest.approx(phi.value(zero, q1, q1).value, abs=1e-8)
    gradient, error = phi.tied_gradient(q1)
    np.testing.assert_allclose(gradient, phi.gradients(zero, q1, q1).tied, atol=1e-8)
    assert error < 1e-7
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)


@pytest.mark.parametrize(("loss", "tokens"), CASES, ids=lambda v: str(v)[:60])
def test_value_is_the_average_of_the_loss_over_the_gaussian_law(loss, tokens):
    mean, q1, q2 = parameters(loss.indices, seed=2, scale=0.5)
    c = token_covariance(tokens)
    law = GaussianLaw.of(OrderParameters(mean, q1, q2), tokens, c)
    values = loss.value(law.sample(100_000, np.random.default_rng(3)))
    standard_error = values.std() / np.sqrt(len(values))
    assert abs(values.mean() - potential(loss, tokens, c).value(mean, q1, q2).value) < 4 * standard_error + 1e-12


# The worked examples of the theory.


def test_linear_example_has_the_stated_gradient():
    # Φ = 2q11 + 2q22 − 4q12 for (G1 − G2)² at L = 1, [D] appendix D.3: gradients 2 and −2.
    phi = potential(ExpressionLoss("(G[0,0,0] - G[0,0,1])**2", 1, 2), 1)
    q = sp.Matrix(2, 2, lambda k, n: sp.Symbol(f"q_{min(k, n) + 1}{max(k, n) + 1}", real=True))
    assert sp.expand(phi.symbolic_tied_value() - (2 * q[0, 0] + 2 * q[1, 1] - 4 * q[0, 1])) == 0
    np.testing.assert_array_equal(phi.tied_gradient([[1.0, 0.2], [0.2, 3.0]])[0], [[2, -2], [-2, 2]])


def softmax_two_tokens(q):
    """½·2·2·E(s(u1) − s(u2))² with Var u = 3q, and its gradient by q12, by adaptive quadrature."""
    v = 3 * np.asarray(q)
    slope, rest = v[0, 1] / v[0, 0], np.sqrt(v[1, 1] - v[0, 1] ** 2 / v[0, 0])

    def average(f):
        def integrand(y, x):
            u = np.sqrt(v[0, 0]) * x
            w = slope * u + rest * y
            return f(u, w) * np.exp(-(x * x + y * y) / 2) / (2 * np.pi)

        return integrate.dblquad(integrand, -9, 9, -9, 9, epsabs=1e-11, epsrel=1e-11)[0]

    d = lambda u: special.expit(u) * special.expit(-u)  # noqa: E731
    value = average(lambda u, w: 2 * (special.expit(u) - special.expit(w)) ** 2)
    # ½ ∂Φ/∂q12 = ½ · 3 · (−4 E s'(u) s'(w)).
    return value, -6 * average(lambda u, w: d(u) * d(w))


@pytest.mark.parametrize("q12", [0.0, 0.6, 1.2, -0.5])
def test_softmax_of_two_tokens_is_the_logistic_integral(q12):
    q = np.array([[2.0, q12], [q12, 1.3]])
    phi = potential(MeanSquaredError("softmax"), 2)
    value, cross = softmax_two_tokens(q)
    assert phi.tied_value(q).value == pytest.approx(value, abs=1e-9)
    gradient, error = phi.tied_gradient(q)
    assert gradient[0, 1] == pytest.approx(cross, abs=1e-9)
    assert error < 1e-9
    assert phi.gradient_error(q) < 1e-8


@pytest.mark.parametrize(
    ("function", "tokens"),
    [(f, n) for f in ("softmax", "erf", "hermite3") for n in (1, 2, 3) if (f, n) != ("softmax", 1)],
)
def test_cross_gradient_is_equation_22(function, tokens):
    """[∇Φ]_12 = −½ E⟨∇F(G1)B^½, ∇F(G2)B^½⟩, by Monte Carlo over all forms."""
    loss = MeanSquaredError(function)
    q, c = np.array([[0.9, 0.4], [0.4, 0.7]]), token_covariance(tokens)
    law = GaussianLaw.of(OrderParameters(np.zeros(2), q, q), tokens, c)
    forms = law.sample(60_000, np.random.default_rng(11))
    size = tokens * tokens
    basis = np.eye(size).reshape(size, 1, tokens, tokens)
    jacobians = []
    for k in range(2):
        rows = [loss.student.vector_jacobian(forms[..., k], np.broadcast_to(b, forms[..., k].shape)) for b in basis]
        jacobians.append(np.stack(rows, axis=1).reshape(len(forms), size, size))
    base = np.einsum("ac,bd->abcd", c, c) + np.einsum("ad,bc->abcd", c, c)
    base = base.reshape(size, size)
    samples = -0.5 * np.einsum("noa,ab,nob->n", jacobians[0], base, jacobians[1])
    found = potential(loss, tokens, c).tied_gradient(q)[0][0, 1]
    assert abs(samples.mean() - found) < 4 * samples.std() / np.sqrt(len(samples))


@pytest.mark.parametrize("function", [Hermite(2), Hermite(3), Erf(), ElementwiseExpression("tanh(x)")], ids=repr)
def test_cross_gradient_is_the_hermite_series_23(function):
    """At L = 1 and equal variances, (23) times q12 reads −½ Σ n ρ^n c_n², c_n the Hermite coefficients of F."""
    q = np.array([[0.8, 0.5], [0.5, 0.8]])
    sigma, rho = np.sqrt(2 * 0.8), 0.5 / 0.8
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / weights.sum()
    values = function(sigma * nodes)
    coefficients = np.array([(weights * values) @ Hermite(n)(nodes) for n in range(60)])
    series = -0.5 * (np.arange(60) * rho ** np.arange(60)) @ coefficients**2
    gradient, _ = potential(MeanSquaredError(function), 1).tied_gradient(q)
    assert 0.5 * gradient[0, 1] == pytest.approx(series, abs=1e-8)
    assert gradient[0, 1] < 0


# Closed forms.


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_hermite_at_unit_variance_is_mehler(degree):
    # L = 1 tied: Var G = 2q = 1; E h_n(G1) h_n(G2) = ρ^n.
    rho = sp.Symbol("rho")
    q = sp.Matrix([[sp.Rational(1, 2), rho / 2], [rho / 2, sp.Rational(1, 2)]])
    phi = potential(MeanSquaredError(Hermite(degree)), 1)
    assert sp.expand(phi.symbolic_tied_value(q) - (1 - rho**degree)) == 0


def _by_cubature(loss, tokens, c, mean, q1, q2):
    """The same potential with its closed form switched off."""
    phi = potential(loss, tokens, c)
    return phi._expect(np.asarray(mean, float), q1, q2, 2)


@pytest.mark.parametrize("tokens", [1, 2, 3])
@pytest.mark.parametrize(
    "loss",
    [
        MeanSquaredError("hermite2"),
        MeanSquaredError("hermite3", Polynomial([1, 0, "1/2"])),
        MeanSquaredError("linear", "hermite4"),
        MeanSquaredError("hermite2", "hermite2", (0, 2), (1,), student_weights=("1/2", -2)),
    ],
    ids=lambda v: str(v)[:50],
)
def test_polynomial_closed_form_is_the_cubature(loss, tokens):
    mean, q1, q2 = parameters(loss.indices, seed=6)
    c = token_covariance(tokens)
    phi = potential(loss, tokens, c)
    closed = phi.gradients(mean, q1, q2)
    value, by_mean, by_q1, by_q2, hessian, error, _ = _by_cubature(loss, tokens, c, mean, q1, q2)
    assert closed.method == "closed form"
    assert error < 1e-7
    assert phi.value(mean, q1, q2).value == pytest.approx(value, rel=1e-9)
    scale = max(1.0, float(np.abs(closed.q1).max()))
    for exact, numeric in ((closed.mean, by_mean), (closed.q1, by_q1), (closed.q2, by_q2)):
        np.testing.assert_allclose(exact, numeric, atol=1e-8 * scale)
    np.testing.assert_allclose(phi.mean_hessian(mean, q1, q2), hessian, atol=1e-8 * scale)


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_arcsine_law_is_the_cubature(tokens):
    loss, c = MeanSquaredError(Erf(), Erf("3/2")), token_covariance(tokens)
    _, q1, q2 = parameters(2, seed=7)
    phi = potential(loss, tokens, c)
    closed = phi.gradients(None, q1, q2)
    value, by_mean, by_q1, by_q2, _, _, _ = _by_cubature(loss, tokens, c, np.zeros(2), q1, q2)
    assert closed.method == "closed form"
    assert phi.value(None, q1, q2).value == pytest.approx(value, abs=1e-8)
    for exact, numeric in ((closed.mean, by_mean), (closed.q1, by_q1), (closed.q2, by_q2)):
        np.testing.assert_allclose(exact, numeric, atol=1e-8)
    assert phi.gradients([0.1, 0.0], q1, q2).method == "grid"


def test_symbolic_value_is_exact():
    phi = potential(MeanSquaredError("hermite2"), 2)
    value = phi.symbolic_value()
    assert value is not None
    assert not value.has(sp.Float)
    assert potential(MeanSquaredError("softmax"), 2).symbolic_value() is None
    assert potential(MeanSquaredError("erf"), 2).symbolic_value() is None
    assert potential(MeanSquaredError("erf"), 2).symbolic_tied_value() is not None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=3, max_size=3))
def test_isserlis_is_gauss_hermite(powers):
    root = np.array([[0.8, 0, 0], [0.3, 0.5, 0], [-0.2, 0.4, 0.9]])
    mean = [0.3, -0.2, 0.1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    total = 0.0
    for picks in itertools.product(range(8), repeat=3):
        point = np.array(mean) + root @ nodes[list(picks)]
        total += np.prod(weights[list(picks)]) * np.prod(point ** np.array(powers))
    exact = isserlis(powers, mean, sp.Matrix((root @ root.T).tolist()))
    assert float(exact) == pytest.approx(total, abs=1e-12)


# User losses.


@pytest.mark.parametrize(
    ("loss", "tokens"),
    [
        (MeanSquaredError("softmax"), 2),
        (MeanSquaredError("hermite2"), 2),
        (MeanSquaredError("erf"), 2),
        (CrossEntropy(), 2),
        (HEADS, 2),
    ],
    ids=lambda v: str(v)[:50],
)
def test_written_loss_equals_the_built_in_one(loss, tokens):
    mean, q1, q2 = parameters(loss.indices, seed=8)
    c = token_covariance(tokens)
    built_in = potential(loss, tokens, c)
    written = potential(ExpressionLoss(loss.expression(tokens), tokens, loss.indices), tokens, c)
    assert written.value(mean, q1, q2).value == pytest.approx(built_in.value(mean, q1, q2).value, abs=1e-8)
    for name in ("mean", "q1", "q2"):
        np.testing.assert_allclose(
            getattr(written.gradients(mean, q1, q2), name), getattr(built_in.gradients(mean, q1, q2), name), atol=1e-7
        )


def test_a_written_softmax_row_uses_the_differences_alone():
    loss = ExpressionLoss(MeanSquaredError("softmax").expression(3), 3, 2)
    sites = potential(loss, 3)._sites[1]
    # Each addend pairs one output of student and teacher: 2(T−1) directions out of 2T forms.
    assert all(site.directions.shape[0] == 4 and len(site.forms) == 6 for site in sites)


def test_exponential_loss_has_its_lognormal_average():
    loss = ExpressionLoss("exp(G[0,0,0])", 1, 1, allow_exponential_growth=True)
    phi = potential(loss, 1)
    # Var G = 2q: E e^G = e^{m + q}, both derivatives the same.
    assert phi.value([0.2], [[0.5]], [[0.5]]).value == pytest.approx(math.exp(0.7), rel=1e-9)
    found = phi.gradients([0.2], [[0.5]], [[0.5]])
    assert found.mean[0] == pytest.approx(math.exp(0.7), rel=1e-9)
    assert found.q1[0, 0] + found.q2[0, 0] == pytest.approx(math.exp(0.7), rel=1e-9)


def test_constant_and_separable_losses():
    phi = potential(ExpressionLoss("3 + 0*G[0,0,0]", 1, 1), 1)
    assert phi.value(None, [[1.0]], [[1.0]]).value == 3
    phi = potential(ExpressionLoss("tanh(G[0,0,0])**2 + tanh(G[1,1,1])**2 + 1/2", 2, 2), 2)
    single = potential(ExpressionLoss("tanh(G[0,0,0])**2", 2, 2), 2)
    q = np.diag([0.7, 0.7])
    assert phi.tied_value(q).value == pytest.approx(2 * single.tied_value(q).value + 0.5, abs=1e-9)


# Edges.


@pytest.mark.parametrize("loss", [MeanSquaredError("softmax"), MeanSquaredError("erf"), CrossEntropy()], ids=str)
def test_singular_order_parameters(loss):
    phi = potential(loss, 2)
    for q in ([[1.0, 1.0], [1.0, 1.0]], [[1.0, -0.5], [-0.5, 0.25]], [[0.0, 0.0], [0.0, 1.0]], np.zeros((2, 2))):
        gradient, error = phi.tied_gradient(q)
        assert np.isfinite(gradient).all()
        assert error < 1e-8
        inside = 0.999999 * np.asarray(q) + 1e-6 * np.eye(2)
        # The limit from inside the cone.
        np.testing.assert_allclose(gradient, phi.tied_gradient(inside)[0], atol=1e-4)
        np.testing.assert_allclose(phi.gradients(None, q, q).tied, gradient, atol=1e-7)


def test_recovery_is_a_minimum_of_zero_loss():
    for tokens in (2, 3):
        phi = potential(MeanSquaredError("softmax"), tokens, token_covariance(tokens))
        q = np.full((2, 2), 1.4)
        assert phi.tied_value(q).value == pytest.approx(0, abs=1e-9)
        gradient, _ = phi.tied_gradient(q)
        assert gradient[0, 0] + gradient[0, 1] == pytest.approx(0, abs=1e-9)


def test_singular_token_covariance():
    c = np.array([[1.0, 1.0], [1.0, 1.0]])
    # Equal tokens: all four forms are equal, the softmax is constant.
    phi = potential(MeanSquaredError("softmax"), 2, c)
    assert phi.tied_value([[1.0, 0.3], [0.3, 2.0]]).value == pytest.approx(0, abs=1e-14)
    phi = potential(MeanSquaredError("erf"), 2, c)
    single = potential(MeanSquaredError("erf"), 1)
    q = [[1.0, 0.3], [0.3, 2.0]]
    assert phi.tied_value(q).value == pytest.approx(4 * single.tied_value(q).value, rel=1e-12)


def test_antisymmetric_directions_vanish_at_one_token():
    # At L = 1 only q1 + q2 matters, and q1 − q2 may have any sign.
    phi = potential(MeanSquaredError(ElementwiseExpression("tanh(x)")), 1)
    a, b = np.array([[0.2, 0.1], [0.1, 0.1]]), np.array([[0.9, 0.2], [0.2, 0.8]])
    assert phi.value(None, a, b).value == pytest.approx(phi.value(None, b, a).value, abs=1e-12)


def test_outside_the_cone_is_an_input_error_except_for_polynomials():
    bad = np.array([[1.0, 2.0], [2.0, 1.0]])
    phi = potential(MeanSquaredError("softmax"), 2)
    for call in (
        phi.tied_gradient,
        phi.tied_value,
        lambda q: phi.value(None, q, q),
        lambda q: phi.gradients(None, q, q),
    ):
        with pytest.raises(InputError, match=r"eigenvalue -[12].*project them"):
            call(bad)
    polynomial = potential(MeanSquaredError("linear"), 1)
    assert polynomial.tied_value(bad).value == pytest.approx(1 + 1 - 2 * 2)


def test_input_errors():
    loss = MeanSquaredError("linear")
    phi = potential(loss, 2)
    with pytest.raises(InputError, match=r"q has shape \(3, 3\)"):
        phi.tied_gradient(np.eye(3))
    with pytest.raises(InputError, match="not finite"):
        phi.tied_gradient([[1.0, np.nan], [np.nan, 1.0]])
    with pytest.raises(InputError, match="not symmetric"):
        phi.tied_gradient([[1.0, 0.5], [0.1, 1.0]])
    with pytest.raises(InputError, match="mean has shape"):
        phi.value([0.0], np.eye(2), np.eye(2))
    with pytest.raises(InputError, match="smallest eigenvalue"):
        potential(loss, 2, [[1, 2], [2, 1]])
    with pytest.raises(InputError, match="function of 1 tokens"):
        potential(ExpressionLoss("G[0,0,0]", 1, 1), 2)
    with pytest.raises(InputError, match="is not a Loss"):
        potential("mse", 2)


def test_results_do_not_depend_on_the_order_of_calls():
    fresh = potential(MeanSquaredError("softmax"), 2)
    used = potential(MeanSquaredError("softmax"), 2)
    q = np.array([[1.1, 0.4], [0.4, 0.9]])
    for scale in (0.01, 3.0, 30.0):
        used.tied_gradient(scale * q)
    np.testing.assert_array_equal(used.tied_gradient(q)[0], fresh.tied_gradient(q)[0])


def test_many_tokens_of_any_covariance_fall_back_on_sampling_with_an_error_bar():
    loss, tokens = MeanSquaredError("softmax"), 6
    mean, q1, q2 = parameters(2, seed=9)
    c = token_covariance(tokens)
    found = potential(loss, tokens, c).value(mean, q1, q2)
    law = GaussianLaw.of(OrderParameters(mean, q1, q2), tokens, c)
    values = loss.value(law.sample(100_000, np.random.default_rng(5)))
    assert found.method == "sobol"
    assert 0 < found.error < 1e-3 * found.value
    standard_error = values.std() / np.sqrt(len(values))
    assert abs(found.value - values.mean()) < 4 * np.hypot(standard_error, found.error)
    again = potential(loss, tokens, c).value(mean, q1, q2)
    assert again == found


def _loss_at_finite_dimension(loss, tokens, dim, samples, rng, centred):
    """The average loss over Gaussian tokens for MP matrices of dimension dim, with the potential at their own q."""
    factors = rng.standard_normal((loss.indices, dim, dim)) / np.sqrt(dim)
    factors[1] = 0.6 * factors[0] + 0.8 * factors[1]
    matrices = factors @ factors.transpose(0, 2, 1)
    q = np.einsum("kab,lab->kl", matrices, matrices) / dim
    total, squares, done = 0.0, 0.0, 0
    while done < samples:
        x = rng.standard_normal((2000, tokens, dim))
        forms = np.stack([np.einsum("nia,nja->nij", x @ s, x) for s in matrices], axis=-1) / np.sqrt(dim)
        if centred:
            forms -= np.eye(tokens)[:, :, None] * np.trace(matrices, axis1=1, axis2=2) / np.sqrt(dim)
        values = loss.value(forms)
        total, squares, done = total + values.sum(), squares + (values**2).sum(), done + len(values)
    average = total / done
    return q, average, np.sqrt((squares / done - average**2) / done)


@pytest.mark.parametrize("loss", [MeanSquaredError("softmax"), CrossEntropy()], ids=str)
def test_population_loss_at_finite_dimension_approaches_the_potential(loss):
    rng = np.random.default_rng(12)
    phi = potential(loss, 2)
    for dim in (30, 120):
        q, average, standard_error = _loss_at_finite_dimension(loss, 2, dim, 40_000, rng, centred=True)
        # First correction O(d^{-1/2}) through the third cumulants.
        assert abs(average - phi.tied_value(q).value) < 4 * standard_error + 0.5 * average / np.sqrt(dim)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [MeanSquaredError("softmax"), MeanSquaredError("hermite3"), CrossEntropy()], ids=str)
def test_finite_dimension_error_shrinks(loss):
    rng = np.random.default_rng(13)
    phi = potential(loss, 2)
    gaps, errors = [], []
    for dim in (16, 64, 256):
        q, average, standard_error = _loss_at_finite_dimension(loss, 2, dim, 400_000, rng, centred=True)
        gaps.append(abs(average - phi.tied_value(q).value) / average)
        errors.append(4 * standard_error / average)
    # Four times the dimension at least halves the gap, within the Monte Carlo error.
    assert gaps[1] < 0.5 * gaps[0] + errors[0] + errors[1]
    assert gaps[2] < 0.5 * gaps[1] + errors[1] + errors[2]
