"""Losses: value, gradient and expression against one another, finite differences, and the assumptions of the theory."""

import numpy as np
import pytest
import sympy as sp

from aimtheory.errors import AssumptionError, InputError
from aimtheory.model.activations import Softmax, activation
from aimtheory.model.losses import FORMS, CrossEntropy, ExpressionLoss, MeanSquaredError
from aimtheory.model.regularity import check_regularity

LOSSES = {
    "mse softmax": (MeanSquaredError("softmax"), 2),
    "mse mixed": (MeanSquaredError("softmax", "erf"), 3),
    "mse heads": (
        MeanSquaredError("hermite2", "hermite3", (0, 2), (1, 3), student_weights=(1, "1/2"), teacher_weights=(2, -1)),
        2,
    ),
    "cross entropy": (CrossEntropy(), 3),
    "cross entropy causal": (CrossEntropy("causal_softmax"), 3),
    "cross entropy heads": (
        CrossEntropy(
            Softmax(2), Softmax("1/2"), (0, 3), (1, 2), student_weights=(1, 0.5), teacher_weights=("1/4", "3/4")
        ),
        2,
    ),
    "expression": (ExpressionLoss("log(1 + (G[0,0,0] - tanh(G[0,1,1]))**2) + G[1,0,1]", 2, 2), 2),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_is_the_finite_difference(name):
    loss, tokens = LOSSES[name]
    rng, step = np.random.default_rng(5), 1e-6
    forms = rng.standard_normal((3, tokens, tokens, loss.indices))
    gradient = loss.gradient(forms)
    assert loss.value(forms).shape == (3,)
    assert gradient.shape == forms.shape
    for position in np.ndindex(forms.shape[1:]):
        shift = np.zeros_like(forms)
        shift[(slice(None), *position)] = step
        difference = (loss.value(forms + shift) - loss.value(forms - shift)) / (2 * step)
        np.testing.assert_allclose(gradient[(slice(None), *position)], difference, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_expression_loss_of_the_expression_is_the_loss(name):
    loss, tokens = LOSSES[name]
    written = ExpressionLoss(loss.expression(tokens), tokens, loss.indices)
    forms = np.random.default_rng(6).standard_normal((5, tokens, tokens, loss.indices))
    np.testing.assert_allclose(written.value(forms), loss.value(forms), rtol=1e-12)
    np.testing.assert_allclose(written.gradient(forms), loss.gradient(forms), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_dtype_and_batch_shape(name):
    loss, tokens = LOSSES[name]
    forms = np.random.default_rng(7).standard_normal((2, 3, tokens, tokens, loss.indices))
    single = forms.astype(np.float32)
    assert loss.value(single).dtype == np.float32
    assert loss.gradient(single).dtype == np.float32
    np.testing.assert_allclose(loss.value(single), loss.value(forms), rtol=1e-3, atol=1e-4)
    assert loss.value(forms).shape == (2, 3)


def test_mse_is_half_the_sum_of_squares_over_outputs():
    rng = np.random.default_rng(8)
    forms = rng.standard_normal((2, 2, 2))
    softmax = activation("softmax")
    residual = softmax(forms[..., 0]) - softmax(forms[..., 1])
    assert float(MeanSquaredError("softmax").value(forms)) == pytest.approx(0.5 * (residual**2).sum(), rel=1e-14)


def test_cross_entropy_is_entropy_plus_divergence():
    forms = np.random.default_rng(9).standard_normal((3, 3, 2))
    teacher, student = Softmax()(forms[..., 1]), Softmax()(forms[..., 0])
    entropy, divergence = -(teacher * np.log(teacher)).sum(), (teacher * np.log(teacher / student)).sum()
    assert float(CrossEntropy().value(forms)) == pytest.approx(entropy + divergence, rel=1e-13)
    same = forms.copy()
    same[..., 0] = same[..., 1]
    np.testing.assert_allclose(CrossEntropy().gradient(same)[..., 0], 0, atol=1e-15)


def test_losses_stay_finite_at_huge_forms():
    forms = 1e4 * np.random.default_rng(10).standard_normal((2, 2, 2))
    for loss in (CrossEntropy(), MeanSquaredError("softmax")):
        assert np.isfinite(loss.value(forms))
        assert np.isfinite(loss.gradient(forms)).all()


def test_input_errors_name_the_offence():
    with pytest.raises(InputError, match="index 0 is both a student and a teacher"):
        MeanSquaredError("linear", students=(0,), teachers=(0,))
    with pytest.raises(InputError, match="repeats an index"):
        MeanSquaredError("linear", students=(0, 0), teachers=(1,))
    with pytest.raises(InputError, match="2 entries for 1 indices"):
        MeanSquaredError("linear", student_weights=(1, 2))
    with pytest.raises(InputError, match="not a probability distribution"):
        CrossEntropy(teachers=(1, 2), teacher_weights=(1, 1))
    with pytest.raises(InputError, match="takes softmax activations"):
        CrossEntropy("erf")
    with pytest.raises(InputError, match=r"shape \(2, 3, 2\)"):
        MeanSquaredError("linear").value(np.zeros((2, 3, 2)))
    with pytest.raises(InputError, match="unknown symbols a"):
        ExpressionLoss(sp.Symbol("a") * FORMS[0, 0, 0], 1, 1)
    with pytest.raises(InputError, match="outside the forms"):
        ExpressionLoss(FORMS[0, 2, 0], 2, 1)
    with pytest.raises(InputError, match="unknown symbol H"):
        ExpressionLoss(sp.IndexedBase("H")[0, 0, 0], 1, 1)
    with pytest.raises(InputError, match="function of 2 tokens"):
        ExpressionLoss("G[0,0,0]", 2, 1).value(np.zeros((3, 3, 1)))


X, Y = sp.symbols("x y", real=True)
ALLOWED = [
    X**4 * Y,
    sp.tanh(X) ** 3,
    sp.exp(X) / (sp.exp(X) + sp.exp(Y) + 1),
    1 / (1 + sp.exp(-X)),
    sp.log(1 + sp.exp(X - Y)),
    sp.log(sp.exp(X) / (sp.exp(X) + sp.exp(Y))),
    sp.log(sp.cosh(X)),
    1 / sp.cosh(X) ** 2,
    sp.exp(-(X**2) + X * Y - Y**2),
    sp.exp(-(X**2) / 2 + 3 * X),
    sp.exp(sp.sin(X)),
    sp.sqrt(1 + X**2),
    1 / (2 + sp.cos(X)),
    X * sp.exp(X) / (sp.exp(X) + sp.exp(Y)),
    sp.exp((X + Y) / 2) / (sp.exp(X) + sp.exp(Y)),
    (sp.exp(2 * X) - 1) / (sp.exp(2 * X) + 1),
    sp.exp(2 * X) / (sp.exp(X) + sp.exp(Y)) ** 2,
]
FORBIDDEN = [
    (sp.exp(X), "1.3"),
    (sp.exp(X**2), "1.3"),
    (sp.sinh(X), "1.3"),
    (sp.exp(2 * X) / (sp.exp(X) + sp.exp(Y)), "1.3"),
    (sp.exp(-X * Y), "1.3"),
    (sp.exp(X**2 - Y**2), "1.3"),
    (sp.sign(X), "1.3"),
    (sp.Heaviside(X), "1.3"),
    (sp.Abs(X), "2.1"),
    (sp.Max(X, Y), "2.1"),
    (sp.Piecewise((X, X > 0), (0, True)), "2.1"),
    (1 / X, "2.1"),
    (1 / (1 + X), "2.1"),
    (sp.log(X), "2.1"),
    (sp.log(X**2), "2.1"),
    (sp.sqrt(X**2 + Y**2), "2.1"),
    (X ** sp.Rational(9, 2), "2.1"),
    (sp.exp(X) / (sp.exp(X) - sp.exp(Y)), "1.3"),
    (sp.gamma(X), "2.1"),
    (sp.tan(X), "2.1"),
]


@pytest.mark.parametrize("formula", ALLOWED, ids=str)
def test_regular_losses_pass_and_their_bounds_hold(formula):
    found = check_regularity(formula, (X, Y))
    rng = np.random.default_rng(11)
    points = rng.standard_normal((400, 2)) * np.array([1.0, 4.0])[rng.integers(0, 2, (400, 1))]
    values = sp.lambdify((X, Y), formula, "scipy")(*points.T)
    assert (values >= found.lower - 1e-9).all()
    assert (values <= found.upper + 1e-9).all()
    # Growth of the claimed order: f(r u)/r^degree stays bounded along rays.
    rays = rng.standard_normal((50, 2))
    with np.errstate(all="ignore"):
        growth = [np.nanmax(np.abs(sp.lambdify((X, Y), formula, "scipy")(*(r * rays).T)) / r**found.degree)
                  for r in (5.0, 50.0)]  # fmt: skip
    assert growth[1] <= 5 * growth[0] + 1


def test_ratios_times_sums_of_ratios_are_bounded():
    """A softmax entry times a sum that holds another one is bounded and smooth; an unbounded factor still is not."""
    first = sp.exp(X) / (sp.exp(X) + sp.exp(Y))
    second = sp.exp(2 * Y) / (sp.exp(2 * Y) + sp.exp(-X))
    for formula in (first * (second - 1), first * second * (first - 2), first * (second - 1) ** 2):
        assert check_regularity(formula, (X, Y)).degree == 0
    assert check_regularity(first * (second - X), (X, Y)).degree == 1
    for formula in (first * (sp.exp(X) * second - 1), sp.exp(X) * (second - 1), first * (1 / Y - 1)):
        with pytest.raises(AssumptionError):
            check_regularity(formula, (X, Y))
    assert ExpressionLoss(
        "exp(G[0,0,0])/(exp(G[0,0,0])+exp(G[0,1,0]))*(exp(G[0,0,1])/(exp(G[0,0,1])+exp(G[0,1,1]))-1)", 2, 2
    )


@pytest.mark.parametrize(("formula", "assumption"), FORBIDDEN, ids=lambda value: str(value))
def test_irregular_losses_are_refused_with_the_assumption(formula, assumption):
    with pytest.raises(AssumptionError, match=rf"Assumption {assumption} of \[D\]"):
        check_regularity(formula, (X, Y))


def test_exponential_growth_only_on_request():
    with pytest.raises(AssumptionError, match="allow_exponential_growth=True"):
        ExpressionLoss("exp(G[0,0,0])", 1, 1)
    assert ExpressionLoss("exp(G[0,0,0])", 1, 1, allow_exponential_growth=True).indices == 1
    with pytest.raises(AssumptionError, match="faster than exponentially"):
        ExpressionLoss("exp(G[0,0,0]**2)", 1, 1, allow_exponential_growth=True)
