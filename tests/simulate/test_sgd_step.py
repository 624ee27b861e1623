"""One step of SGD: its algebra, its basis, its chunks, and its mean against the drift of the theory."""

from dataclasses import replace

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.model import AttentionModel, direct, tied, untied, written
from aimtheory.model.losses import MeanSquaredError
from aimtheory.simulate import OnlineSgd, initial_parameters, loss_and_gradient, online_sgd
from aimtheory.words import Letter, Polynomial

C2 = ((1.0, 0.6), (0.6, 2.0))


def fixed(attention):
    return replace(attention, parameters=tuple(replace(p, trained=False) for p in attention.parameters))


def model_of(student, *teachers, tokens=2, covariance=C2, activation="linear", **options):
    loss = MeanSquaredError(activation, teachers=range(1, 1 + len(teachers)))
    heads = (student, *map(fixed, teachers))
    return AttentionModel.of(*heads, contexts=((1, tokens, covariance),), loss=loss, **options)


def gaussian(shape, scale, seed):
    return np.random.default_rng(seed).standard_normal(shape) * scale


def step_by_hand(model, matrices, tokens, rate):
    _, gradient = loss_and_gradient(model, matrices, tokens)
    dim = tokens.shape[-1]
    decay = float(model.weight_decay)
    return {
        name: matrix - rate * gradient[name] - rate * decay / dim * matrix if name in gradient else matrix
        for name, matrix in matrices.items()
    }


CASES = {
    # The teacher is diagonalized: tied (rank below d), symmetric direct; not at all; and twice fixed.
    "tied": ((tied(1), tied(2)), {"W1": (9, 9), "W2": (9, 4)}),
    "untied, symmetric teacher": (
        (untied(1), direct(2, symmetric=True)),
        {"U1": (9, 5), "V1": (9, 5), "S2": (9, 9)},
    ),
    "untied, untied teacher": ((untied(1), untied(2)), {"U1": (9, 5), "V1": (9, 5), "U2": (9, 8), "V2": (9, 8)}),
    "direct": ((direct(1), direct(2)), {"S1": (9, 9), "S2": (9, 9)}),
    "two fixed": (
        (tied(1), tied(2), tied(3)),
        {"W1": (9, 9), "W2": (9, 4), "W3": (9, 9)},
    ),
    "square letters": (
        (
            written(
                "D1",
                Polynomial.word(Letter("V", "d", "d"), Letter("W", "d", "r"), Letter("W", "d", "r").T),
            ),
            tied(2),
        ),
        {"V": (9, 9), "W": (9, 6), "W2": (9, 9)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_step_in_the_eigenbasis_of_a_teacher_is_the_plain_step(name):
    indices, shapes = CASES[name]
    model = model_of(*indices, activation="softmax", weight_decay="1/2")
    matrices = {letter: gaussian(shape, 0.3, n) for n, (letter, shape) in enumerate(shapes.items())}
    if "S2" in matrices and name != "direct":
        matrices["S2"] = matrices["S2"] + matrices["S2"].T
    rng = np.random.default_rng(8)
    state = OnlineSgd(model, matrices, 9, 0.3, 6, "float64")
    has_basis = name in ("tied", "untied, symmetric teacher", "two fixed", "square letters")
    assert (state.basis.basis is not None) == has_basis
    expected = matrices
    for _ in range(3):
        tokens = rng.standard_normal((6, 2, 9))
        rotated = tokens @ state.basis.basis if has_basis else tokens
        assert state.step(rotated)
        expected = step_by_hand(model, expected, tokens, 0.3)
    for letter, matrix in state.original().items():
        np.testing.assert_allclose(matrix, expected[letter], rtol=0, atol=1e-13)
    assert (
        np.abs(expected["W1" if "W1" in expected else next(iter(expected))] - matrices[next(iter(matrices))]).max()
        > 1e-3
    )


def test_a_batch_in_chunks_is_the_same_step(monkeypatch):
    model = aim.models.load("tied-softmax")
    matrices = initial_parameters(model, 12, seed=0)
    tokens = np.random.default_rng(0).standard_normal((11, 2, 12))
    whole = OnlineSgd(model, matrices, 12, 0.1, 11, "float64")
    monkeypatch.setattr(online_sgd, "_CHUNK_ROWS", 8)
    pieces = OnlineSgd(model, matrices, 12, 0.1, 11, "float64")
    assert (whole.chunks, pieces.chunks) == ([11], [4])
    whole.step(tokens)
    pieces.step(tokens)
    np.testing.assert_allclose(pieces.parameters["W1"], whole.parameters["W1"], rtol=0, atol=1e-14)
    assert pieces.mean_loss(tokens) == pytest.approx(whole.mean_loss(tokens), rel=1e-13)


def mean_trace_velocity(model, matrices, tokens, batches, velocities):
    """Mean and standard error of d tr(word)/dn x d/learning_rate along minus the gradient, over independent batches."""
    found = []
    for batch in np.split(tokens, batches):
        _, gradient = loss_and_gradient(model, matrices, batch)
        found.append(velocities({name: -tokens.shape[-1] * value for name, value in gradient.items()}))
    array = np.array(found)
    return array.mean(axis=0), array.std(axis=0, ddof=1) / np.sqrt(batches)


def test_mean_step_of_a_linear_tied_model_is_the_hierarchy_of_the_theory():
    """1/2 sum (G1 - G2)^2 has Phi = kappa/2 (q11 - 2 q12 + q22) with kappa = (Tr C)^2 + Tr C^2, exactly at any d.

    Then grad_11 = kappa/2 = -grad_12 and [D] (11) gives the drift of every word in time t = 4 n learning_rate / d.
    """
    dim = 16
    model = model_of(tied(1), tied(2))
    matrices = {"W1": gaussian((dim, dim), 1 / 4, 1), "W2": gaussian((dim, dim // 2), 1 / 4, 2)}
    C = np.array(C2)
    tokens = np.linalg.cholesky(C) @ np.random.default_rng(3).standard_normal((100_000, 2, dim))
    W1 = matrices["W1"]
    S1, S2 = W1 @ W1.T, matrices["W2"] @ matrices["W2"].T
    kappa = np.trace(C) ** 2 + np.trace(C @ C)

    def tr(*factors):
        return np.trace(np.linalg.multi_dot(factors)) / dim if len(factors) > 1 else np.trace(factors[0]) / dim

    def velocities(change):
        dS = change["W1"] @ W1.T + W1 @ change["W1"].T
        return [tr(dS), tr(dS, S2), 2 * tr(dS, S1), 2 * tr(dS, S1, S2), tr(dS, S2, S2)]

    mean, error = mean_trace_velocity(model, matrices, tokens, 200, velocities)
    g11, g12 = kappa / 2, -kappa / 2
    # [D] (11), factor 4 from the unit of time.
    expected = 4 * np.array(
        [
            -2 * (g11 * tr(S1, S1) + g12 * tr(S1, S2)),
            -2 * (g11 * tr(S1, S1, S2) + g12 * tr(S1, S2, S2)),
            -4 * (g11 * tr(S1, S1, S1) + g12 * tr(S1, S1, S2)),
            -(
                g11 * (2 * tr(S1, S1, S1, S2) + 2 * tr(S1, S1, S1, S2))
                + g12 * (2 * tr(S1, S1, S2, S2) + 2 * tr(S1, S2, S1, S2))
            ),
            -2 * (g11 * tr(S1, S1, S2, S2) + g12 * tr(S1, S2, S2, S2)),
        ]
    )
    # The fourth word is tr(S1 S1 S2): 2 tr(dS S1 S2) counts both of its letters, up to the order of the factors.
    assert (np.abs(mean - expected) < 4 * error).all(), (mean, expected, error)
    assert (np.abs(expected) > 20 * error).any()


def test_mean_step_of_a_linear_untied_model_has_the_mean_and_both_overlaps():
    """L = 1, not centred: E (G1-G2)^2/2 = ((m1-m2)^2 + [q1_11 - 2 q1_12 + q1_22] + [same with q2])/2, at any d.

    Hence [D] (31)-(32): dU = -(beta V + 2 sum_l (g1 M_l + g2 M_l^T) V) in time n learning_rate / d, with
    beta = sqrt(d) (m1 - m2) and g1 = g2 = +-1/2.
    """
    dim = 12
    model = model_of(untied(1), direct(2, name="M"), tokens=1, covariance=None, centred=False)
    matrices = {"U1": gaussian((dim, 8), 0.3, 1), "V1": gaussian((dim, 8), 0.3, 2), "M2": gaussian((dim, dim), 0.3, 3)}
    U, V, T = matrices["U1"], matrices["V1"], matrices["M2"]
    tokens = np.random.default_rng(4).standard_normal((300_000, 1, dim))

    def velocities(change):
        dM = change["U1"] @ V.T + U @ change["V1"].T
        return [
            np.vdot(dM, T) / dim,
            np.vdot(dM, T.T) / dim,
            2 * np.vdot(dM, U @ V.T) / dim,
            np.trace(dM) / np.sqrt(dim),
        ]

    mean, error = mean_trace_velocity(model, matrices, tokens, 200, velocities)
    gap = U @ V.T - T
    H = np.trace(gap) * np.eye(dim) + gap + gap.T
    expected = velocities({"U1": -H @ V, "V1": -H.T @ U})
    assert (np.abs(mean - expected) < 4 * error).all(), (mean, expected, error)
    assert (np.abs(expected) > 10 * error).all()


def test_mean_step_of_a_linear_direct_model_is_theorem_4():
    """Centred, C not 1: dS_1 = -2 sum_m (g_Omega S_m + g_Psi S_m^T), 2 g_Omega = +-(Tr C)^2, 2 g_Psi = +-Tr C^2."""
    dim = 12
    model = model_of(direct(1), direct(2))
    matrices = {"S1": gaussian((dim, dim), 0.3, 1), "S2": gaussian((dim, dim), 0.3, 2)}
    C = np.array(C2)
    tokens = np.linalg.cholesky(C) @ np.random.default_rng(5).standard_normal((100_000, 2, dim))
    S, T = matrices["S1"], matrices["S2"]

    def velocities(change):
        return [np.vdot(change["S1"], X) / dim for X in (T, T.T, S, np.eye(dim))]

    mean, error = mean_trace_velocity(model, matrices, tokens, 200, velocities)
    expected = velocities({"S1": -(np.trace(C) ** 2 * (S - T) + np.trace(C @ C) * (S - T).T)})
    assert (np.abs(mean - expected) < 4 * error).all(), (mean, expected, error)
    assert (np.abs(expected[:3]) > 20 * error[:3]).all()
