"""The analytic gradient of an SGD step against finite differences of the batch loss, for every kind of S_k."""

from dataclasses import replace

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.model import AttentionModel, direct, tied, untied, written
from aimtheory.model.activations import activation
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, MeanSquaredError
from aimtheory.simulate import forms_of, loss_and_gradient
from aimtheory.words import Letter, Polynomial

DIM = 7
INNER = 4


def correlated(tokens):
    root = np.random.default_rng(5).standard_normal((tokens, tokens))
    return tuple(map(tuple, (root @ root.T + np.eye(tokens)).tolist()))


def letter_matrices(model, seed=0):
    rng = np.random.default_rng(seed)
    sizes = {}
    result = {}
    for letter in model.letters.values():
        shape = tuple(
            DIM if s == "d" else sizes.setdefault(s, INNER + len(sizes)) for s in (letter.rows, letter.columns)
        )
        matrix = rng.standard_normal(shape) * 0.4
        result[letter.name] = (matrix + matrix.T) / 2 if letter.symmetric else matrix
    return result


def dense(polynomial, matrices):
    """S_k by plain multiplication, independent of the package's evaluation."""
    total = np.zeros((DIM, DIM))
    for word, coefficient in polynomial:
        product = np.eye(DIM)
        for letter in word:
            product = product @ (matrices[letter.name].T if letter.transposed else matrices[letter.name])
        total += float(coefficient) * product
    return total


def batch_loss(model, matrices, tokens):
    S = [dense(form.matrix, matrices) for form in model.forms]
    C = model.covariance_matrix
    G = np.stack([np.einsum("bia,ac,bjc->bij", tokens, s, tokens) for s in S], axis=-1)
    if model.centred:
        G = G - np.stack([C * np.trace(s) for s in S], axis=-1)
    return float(model.loss.value(G / np.sqrt(DIM)).mean()), G / np.sqrt(DIM)


def model_of(tokens, attention, loss, covariance=None, **options):
    """The first of two or more heads and those after the second are trained, the second is fixed."""
    heads = [
        replace(each, parameters=tuple(replace(p, trained=n != 1) for p in each.parameters))
        for n, each in enumerate(attention)
    ]
    return AttentionModel.of(*heads, contexts=((1, tokens, covariance),), loss=loss, **options)


A, B, R = Letter("A", "d", "s"), Letter("B", "d", "s"), Letter("R", "d", "d")
FROZEN = Letter("F", "d", "d", symmetric=True)
SANDWICH = written("P1", Polynomial.word(A, A.T, R) * 2 + Polynomial.word(B, A.T) - Polynomial.identity() * 0.5)
SHARED = written("P2", Polynomial.word(A, B.T) + Polynomial.word(R.T, R, R))
SYMMETRIC = written("Y1", Polynomial.word(FROZEN, FROZEN) + Polynomial.word(FROZEN))


def softmax_mse():
    return MeanSquaredError(activation("softmax", inverse_temperature="3/2"))


MODELS = {
    "tied L=2 softmax": lambda: model_of(2, (tied(1), tied(2)), softmax_mse()),
    "tied L=3 softmax correlated": lambda: model_of(3, (tied(1), tied(2)), softmax_mse(), correlated(3)),
    "tied L=8 hermite2": lambda: model_of(8, (tied(1), tied(2)), MeanSquaredError("hermite2")),
    "tied L=1 expression": lambda: model_of(
        1, (tied(1), tied(2)), ExpressionLoss("(G[0, 0, 0] - G[0, 0, 1])**2", tokens=1, indices=2)
    ),
    "untied L=1 hermite3 not centred": lambda: model_of(
        1, (untied(1), untied(2)), MeanSquaredError("hermite3"), centred=False
    ),
    "untied L=2 cross entropy": lambda: model_of(2, (untied(1), untied(2)), CrossEntropy(), centred=False),
    "untied L=2 centred correlated": lambda: model_of(2, (untied(1), direct(2)), softmax_mse(), correlated(2)),
    "direct L=2 erf": lambda: model_of(2, (direct(1), direct(2)), MeanSquaredError("erf"), correlated(2)),
    "symmetric letter": lambda: model_of(2, (SYMMETRIC, tied(2)), softmax_mse(), correlated(2)),
    "sandwich": lambda: model_of(2, (SANDWICH, tied(2)), softmax_mse(), correlated(2)),
    "two students that share letters": lambda: model_of(
        2,
        (SANDWICH, tied(3), SHARED),
        MeanSquaredError("erf", students=(0, 2), teachers=(1,), student_weights=(1, "1/2")),
        correlated(2),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_the_derivative_of_the_batch_loss(name):
    model = MODELS[name]()
    matrices = letter_matrices(model)
    rng = np.random.default_rng(1)
    tokens = rng.standard_normal((5, model.tokens, DIM))
    loss, gradient = loss_and_gradient(model, matrices, tokens)
    expected, forms = batch_loss(model, matrices, tokens)
    assert loss == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(forms_of(model, matrices, tokens), forms, rtol=0, atol=1e-12 * np.abs(forms).max())
    moving = {letter.name for letter in model.trained_letters}
    assert set(gradient) == moving
    symmetric = {letter.name for letter in model.letters.values() if letter.symmetric}
    for letter in moving:
        direction = rng.standard_normal(matrices[letter].shape)
        if letter in symmetric:
            direction = direction + direction.T
            np.testing.assert_allclose(gradient[letter], gradient[letter].T, rtol=0, atol=1e-14)
        h = 1e-5
        up, down = (
            batch_loss(model, {**matrices, letter: matrices[letter] + s * h * direction}, tokens)[0] for s in (1, -1)
        )
        # Central differences: error h^2 times a third derivative of order one, and rounding 1e-16/h.
        assert np.vdot(gradient[letter], direction) == pytest.approx((up - down) / (2 * h), rel=2e-7, abs=1e-8)


def test_a_detached_form_that_shares_a_moving_letter_is_not_differentiated():
    """The theory moves a letter by the gradient through forms that are not detached (a stopped teacher)."""
    forms = (aim.Form("S1", "W1 W1^T"), aim.Form("T", "2 W1 W1^T", detached=True))
    model = AttentionModel(
        parameters=tied(1).parameters, forms=forms, contexts=((1, 1),), loss=MeanSquaredError("linear")
    )
    W = letter_matrices(model)["W1"]
    tokens = np.random.default_rng(2).standard_normal((3, 1, DIM))
    _, gradient = loss_and_gradient(model, {"W1": W}, tokens)
    S = W @ W.T
    x = tokens[:, 0]
    G = (np.einsum("ba,ac,bc->b", x, S, x) - np.trace(S)) / np.sqrt(DIM)
    # d/dW of (G1 - G2)^2/2 with G2 = 2 G1 held fixed: (G1 - 2 G1) dG1/dW.
    by_hand = np.mean(
        [-g * 2 * (np.outer(y, y) - np.eye(DIM)) @ W / np.sqrt(DIM) for g, y in zip(G, x, strict=True)], axis=0
    )
    np.testing.assert_allclose(gradient["W1"], by_hand, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["tied L=2 softmax", "sandwich", "untied L=2 cross entropy"])
def test_single_precision_agrees_with_double(name):
    model = MODELS[name]()
    matrices = letter_matrices(model)
    tokens = np.random.default_rng(3).standard_normal((6, model.tokens, DIM))
    _, double = loss_and_gradient(model, matrices, tokens)
    _, single = loss_and_gradient(model, matrices, tokens.astype(np.float32))
    for letter, value in double.items():
        assert single[letter].dtype == np.float32
        np.testing.assert_allclose(single[letter], value, rtol=0, atol=2e-5 * np.abs(value).max())


def test_parameters_and_tokens_are_checked():
    model = aim.models.load("tied-linear")
    W = {"W1": np.eye(4), "W2": np.eye(4)}
    tokens = np.ones((2, 1, 4))
    with pytest.raises(aim.InputError, match="no matrix for 'W2'"):
        loss_and_gradient(model, {"W1": np.eye(4)}, tokens)
    with pytest.raises(aim.InputError, match="unknown 'V'"):
        loss_and_gradient(model, {**W, "V": np.eye(4)}, tokens)
    with pytest.raises(aim.InputError, match=r"\[0, 1\] = nan"):
        loss_and_gradient(model, {**W, "W1": np.array([[1.0, np.nan], [0.0, 1.0]])}, tokens)
    with pytest.raises(aim.InputError, match="fixes the dimension of space 'd' to 4"):
        loss_and_gradient(model, {**W, "W2": np.ones((5, 2))}, tokens)
    with pytest.raises(aim.InputError, match=r"must be \(batch, 1, 4\)"):
        loss_and_gradient(model, W, np.ones((2, 4)))
    with pytest.raises(aim.InputError, match="NaN"):
        loss_and_gradient(model, W, np.full((2, 1, 4), np.nan))
