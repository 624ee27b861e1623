"""Forms, losses and gradients at finite d, of fresh or given tokens: what Monte Carlo checks of the theory need."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.checks import check_integer
from aimtheory.errors import InputError
from aimtheory.model import AttentionModel
from aimtheory.simulate.explicit_traces import add_traces, trace_values
from aimtheory.simulate.gaussian_tokens import FloatArray, GaussianTokens
from aimtheory.simulate.parameters import Matrices, build_forms, check_parameters, model_letters, moving_letters
from aimtheory.words import EMBEDDING


def forms(
    model: AttentionModel,
    parameters: Mapping[str, ArrayLike],
    batch: int,
    rng: np.random.Generator,
    dtype: str = "float64",
) -> FloatArray:
    """The forms G of ``batch`` fresh samples at finite d, shape (batch, L, L, K): what Theorem 1 of [D] says is
    Gaussian.

    ``parameters`` maps letter names to matrices. Memory O(batch L (d + r)). Exact at finite d. Raises ``InputError``
    for matrices that do not fit.

    >>> import aimtheory as aim
    >>> from aimtheory.simulate import initial_parameters
    >>> model = aim.models.load("tied-softmax")
    >>> G = forms(model, initial_parameters(model, 20, seed=0), batch=7, rng=np.random.default_rng(1))
    >>> G.shape, bool(np.allclose(G, G.swapaxes(1, 2)))
    ((7, 2, 2, 2), True)
    """
    matrices, dim = _given(model, parameters)
    batch = check_integer(batch, "batch", 1)
    seed = np.random.SeedSequence([int(n) for n in rng.integers(2**32, size=4)])
    tokens = GaussianTokens(dim, model.covariance_matrix, batch, dtype, seed)()
    return forms_of(model, matrices, tokens)


def forms_of(model: AttentionModel, parameters: Mapping[str, ArrayLike], tokens: ArrayLike) -> FloatArray:
    """The forms G of given tokens of shape (batch, L, d); shape (batch, L, L, K)."""
    matrices, dim = _given(model, parameters)
    array = _tokens(model, tokens, dim)
    typed: dict[str, FloatArray] = {name: matrix.astype(array.dtype) for name, matrix in matrices.items()}
    machine = build_forms(model, typed, dim, array.shape[0] * array.shape[1], array.dtype)
    return np.ascontiguousarray(machine.forward(array))


def loss_and_gradient(
    model: AttentionModel, parameters: Mapping[str, ArrayLike], tokens: ArrayLike
) -> tuple[float, dict[str, FloatArray]]:
    """The mean loss over given tokens of shape (batch, L, d), and its gradient by every trained letter; no weight
    decay.

    The model has one context; explicit traces are those of the matrices, and a number moves with learning rate
    alpha_d/d, so that its gradient is divided by d. float32 tokens are computed in float32, all others in float64.

    >>> import aimtheory as aim
    >>> from aimtheory.simulate import initial_parameters
    >>> model = aim.models.load("tied-linear")
    >>> W = initial_parameters(model, 10, seed=0)
    >>> loss, gradient = loss_and_gradient(model, W, np.ones((1, 1, 10)))
    >>> sorted(gradient), gradient["W1"].shape
    (['W1'], (10, 10))
    """
    matrices, dim = _given(model, parameters)
    array = _tokens(model, tokens, dim)
    typed: dict[str, FloatArray] = {name: matrix.astype(array.dtype) for name, matrix in matrices.items()}
    machine = build_forms(model, typed, dim, array.shape[0] * array.shape[1], array.dtype)
    values = machine.forward(array)
    explicit = trace_values(model, typed, dim)
    loss = model.loss.at(explicit, model.covariance_matrix)
    gradients = machine.backward(loss.gradient(values) * array.dtype.type(1 / len(array)))
    if explicit:
        slopes = model.loss.trace_gradient(values, explicit, model.covariance_matrix).mean(axis=0, dtype=np.float64)
        add_traces(model, typed, dim, moving_letters(model), slopes, gradients)
    return float(loss.value(values).mean(dtype=np.float64)), gradients


def _given(model: AttentionModel, parameters: Mapping[str, ArrayLike]) -> tuple[Matrices, int]:
    matrices = check_parameters(model, parameters, None)
    for name, letter in model_letters(model).items():
        if letter.rows == EMBEDDING:
            return matrices, matrices[name].shape[0]
        if letter.columns == EMBEDDING:
            return matrices, matrices[name].shape[1]
    raise InputError("the parameters do not touch the embedding space, so its dimension is unknown")


def _tokens(model: AttentionModel, tokens: ArrayLike, dim: int) -> FloatArray:
    array = np.asarray(tokens)
    array = np.ascontiguousarray(array, dtype=np.float32 if array.dtype == np.float32 else np.float64)
    if array.ndim != 3 or array.shape[1:] != (model.tokens, dim) or not len(array):
        raise InputError(f"tokens have shape {array.shape}; they must be (batch, {model.tokens}, {dim})")
    if not np.isfinite(array).all():
        raise InputError("tokens hold a NaN or an infinity")
    return array


__all__ = ["forms", "forms_of", "loss_and_gradient"]
