"""Runs of SGD: what is measured, reproducibility, interruption, divergence, memory, and refused input."""

import tracemalloc

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.model import AttentionModel, direct
from aimtheory.model.losses import MeanSquaredError
from aimtheory.simulate import forms, initial_parameters, loss_and_gradient, sgd

SMALL = {"dim": 24, "learning_rate": 0.05, "batch": 8}


def softmax():
    return aim.models.load("tied-softmax")


def test_observables_are_traces_of_the_matrices():
    names = ["t_1", "t_2", "q_12", "p_12", "tr(S1 S2 S1 S1 S2)", "q_11", "loss"]
    run = sgd(
        softmax(),
        **SMALL,
        times=[0, 0.2, 0.4],
        seeds=[3, 5],
        observables=names,
        snapshots=True,
        eigenvalues=["S1", "S2"],
    )
    assert run.status.ok
    assert run.values["t_1"].shape == (2, 3)
    for seed in range(2):
        for n in range(3):
            W1, W2 = (run.snapshots[seed][n][name] for name in ("W1", "W2"))
            S1, S2 = W1 @ W1.T, W2 @ W2.T

            def tr(matrix):
                return np.trace(matrix) / 24

            expected = [
                tr(S1),
                tr(S2),
                tr(S1 @ S2),
                tr(S1 @ S2) - tr(S1) * tr(S2),
                tr(S1 @ S2 @ S1 @ S1 @ S2),
                tr(S1 @ S1),
            ]
            for name, value in zip(names, expected, strict=False):
                # Matrices are stored in float32 in the working basis.
                assert run.values[name][seed, n] == pytest.approx(value, rel=2e-5, abs=1e-6), name
            for view, S in (("S1", S1), ("S2", S2)):
                np.testing.assert_allclose(run.eigenvalues[view][seed, n], np.linalg.eigvalsh(S), rtol=0, atol=1e-4)
        np.testing.assert_allclose(run.matrices[seed]["W1"], run.snapshots[seed][-1]["W1"])
        start = initial_parameters(softmax(), 24, run.seeds[seed])
        np.testing.assert_allclose(run.snapshots[seed][0]["W1"], start["W1"], atol=1e-5)
        # The teacher does not move.
        np.testing.assert_allclose(run.snapshots[seed][-1]["W2"], start["W2"], atol=1e-5)
        assert np.abs(run.snapshots[seed][-1]["W1"] - start["W1"]).max() > 1e-2
    np.testing.assert_allclose(run["t_1"], run.values["t_1"].mean(axis=0))
    np.testing.assert_allclose(run.standard_error("t_1"), np.abs(np.diff(run.values["t_1"], axis=0))[0] / 2)
    assert run.steps.tolist() == [0, 24, 48]


def test_untied_and_direct_observables():
    untied = aim.models.load("untied-linear")
    run = sgd(
        untied, **SMALL, times=[0, 0.1], observables=["q1_12", "q2_12", "t_1", "tr(A1 M2)", "tr(B1)"], snapshots=True
    )
    (last,) = (each[-1] for each in run.snapshots)
    U, V, M2 = last["U1"], last["V1"], last["M2"]
    M = U @ V.T
    for name, matrix in {
        "q1_12": M @ M2.T,
        "q2_12": M @ M2,
        "t_1": M,
        "tr(A1 M2)": U @ U.T @ M2,
        "tr(B1)": V @ V.T,
    }.items():
        assert run[name][-1] == pytest.approx(np.trace(matrix) / 24, rel=1e-4, abs=1e-6), name


def test_loss_is_the_mean_over_fresh_samples():
    model = softmax()
    run = sgd(
        model, dim=30, learning_rate=0.1, batch=4, steps=1, observables=["loss"], loss_samples=20_000, dtype="float64"
    )
    rng = np.random.default_rng(77)
    values = model.loss.value(forms(model, initial_parameters(model, 30, 0), 20_000, rng))
    error = values.std() * np.sqrt(2 / 20_000)
    assert abs(run["loss"][0] - values.mean()) < 4 * error
    tokens = rng.standard_normal((50, 2, 30))
    plain, _ = loss_and_gradient(model, run.matrices[0], tokens)
    assert plain > 0


def test_same_seed_same_numbers_whatever_is_measured():
    first = sgd(softmax(), **SMALL, times=[0, 0.3], seed=4)
    again = sgd(softmax(), **SMALL, times=[0, 0.3], seeds=[4])
    finer = sgd(softmax(), **SMALL, times=[0, 0.1, 0.2, 0.3], seed=4, observables=["p_12"], eigenvalues=["S1"])
    for name in first.values:
        assert np.array_equal(first.values[name], again.values[name])
    assert np.array_equal(first.values["p_12"][0, [0, 1]], finer.values["p_12"][0, [0, 3]])
    other = sgd(softmax(), **SMALL, times=[0, 0.3], seed=5)
    assert not np.array_equal(first.values["p_12"], other.values["p_12"])
    rngs = [sgd(softmax(), **SMALL, times=[0, 0.3], rng=np.random.default_rng(s)).values["p_12"] for s in (1, 1, 2)]
    assert np.array_equal(rngs[0], rngs[1])
    assert not np.array_equal(rngs[0], rngs[2])


def test_background_drawing_does_not_change_a_run(monkeypatch):
    from aimtheory.simulate import sgd_driver

    plain, threaded = [], []
    for flag, store in ((False, plain), (True, threaded)):
        monkeypatch.setattr(sgd_driver, "spare_thread", lambda flag=flag: flag)
        store.append(sgd(softmax(), **SMALL, times=[0, 0.3]).values["p_12"])
    assert np.array_equal(plain[0], threaded[0])


def test_given_initial_matrices_are_where_it_starts():
    rng = np.random.default_rng(0)
    start = {"W1": rng.standard_normal((24, 24)) / 5, "W2": rng.standard_normal((24, 12)) / 4}
    run = sgd(softmax(), **SMALL, steps=[0, 3], seeds=range(3), initial=start, observables=["q_12"], dtype="float64")
    expected = np.linalg.norm(start["W1"].T @ start["W2"]) ** 2 / 24
    np.testing.assert_allclose(run.values["q_12"][:, 0], expected, rtol=1e-12)
    assert len(np.unique(run.values["q_12"][:, 1])) == 3
    with pytest.raises(aim.InputError, match="dim fixes the dimension of space 'd' to 20"):
        sgd(softmax(), **{**SMALL, "dim": 20}, steps=1, initial=start)


def test_float64_follows_one_step_of_the_definition():
    """[D] (7) by hand, with weight decay, from the same tokens: those of the stream of the seed."""
    from aimtheory.simulate.gaussian_tokens import GaussianTokens
    from aimtheory.simulate.parameters import seed_streams

    model = AttentionModel.teacher_student(
        tokens=2,
        activation="softmax",
        parameterization="direct",
        student=aim.Ginibre(variance=1),
        teacher=aim.Ginibre(variance=2),
        weight_decay="1/3",
    )
    run = sgd(model, dim=10, learning_rate=0.2, batch=5, steps=2, seed=6, dtype="float64", check=False)
    parameters = initial_parameters(model, 10, 6)
    stream = GaussianTokens(10, np.eye(2), 5, "float64", seed_streams(6)[1])
    S = parameters["S1"]
    for _ in range(2):
        _, gradient = loss_and_gradient(model, {**parameters, "S1": S}, stream())
        S = S - 0.2 * gradient["S1"] - 0.2 / 3 / 10 * S
    np.testing.assert_allclose(run.matrices[0]["S1"], S, rtol=0, atol=1e-14)
    np.testing.assert_allclose(run.times, [0, 2 * 0.2 / 10])


def test_interruption_keeps_what_was_reached():
    calls = []

    def stop(done, total):
        calls.append((done, total))
        if len(calls) == 5:
            raise KeyboardInterrupt

    import aimtheory.simulate.sgd_driver as module

    original = module._throttled
    module._throttled = lambda progress, unit: lambda done, total: progress(done * unit, total * unit)
    try:
        run = sgd(softmax(), **SMALL, steps=[0, 2, 4], seeds=range(3), progress=stop, observables=["p_12", "loss"])
    finally:
        module._throttled = original
    # Five steps: the first seed is complete, the second was stopped within its first stretch.
    assert run.status.code == "interrupted"
    assert not run.status.ok
    assert np.isfinite(run.values["p_12"]).tolist() == [[True, True, True], [True, False, False], [False, False, False]]
    assert run.count("p_12").tolist() == [2, 1, 1]
    assert run["p_12"][2] == run.values["p_12"][0, 2]
    assert np.isnan(run.standard_error("p_12")[1:]).all()
    assert run.steps_done in (4, 5)
    assert len(run.matrices) == 2
    assert calls[-1][1] == pytest.approx(3 * 4 * 4 * 0.05 / 24)


def test_divergence_is_reported_with_its_time():
    run = sgd(
        aim.models.load("tied-hermite3"),
        dim=24,
        learning_rate=5.0,
        batch=2,
        steps=[0, 1, 200],
        seeds=[0, 1],
        observables=["t_1", "loss"],
    )
    assert run.status.code == "diverged"
    assert set(run.diverged_at) == {0, 1}
    unit = 4 * 5.0 / 24
    assert all(0 < time < 200 * unit for time in run.diverged_at.values())
    assert np.isfinite(run.values["t_1"][:, 0]).all()
    assert np.isnan(run["t_1"][2])
    assert "seed 0 diverged at t =" in str(run.status)
    assert "Lower the learning rate" in run.status.advice


def test_notes_name_gradient_noise_and_concentration():
    run = sgd(softmax(), dim=24, learning_rate=0.5, batch=1, steps=1)
    assert any("gradient noise" in note for note in run.status.notes)
    assert any("||S1||_op / ||S1||_F" in note for note in run.status.notes)
    S = initial_parameters(softmax(), 24, 0)["W1"]
    S = S @ S.T
    assert run.concentration["S1"] == pytest.approx(np.linalg.norm(S, 2) / np.linalg.norm(S), rel=1e-12)


def test_a_matrix_of_finite_rank_is_refused_unless_told_otherwise():
    rng = np.random.default_rng(0)
    start = {"W1": rng.standard_normal((24, 1)), "W2": rng.standard_normal((24, 24)) / 5}
    with pytest.raises(aim.AssumptionError, match="S1"):
        sgd(softmax(), **SMALL, steps=1, initial=start)
    assert sgd(softmax(), **SMALL, steps=1, initial=start, check=False).status.ok


def test_memory_is_linear_in_batch_and_far_below_dim_squared_times_batch():
    model = aim.models.load("direct-linear")
    peaks = []
    for batch in (2000, 4000):
        sgd(model, dim=64, learning_rate=0.01, batch=8, steps=1, loss_samples=8)  # caches and imports, once
        tracemalloc.start()
        sgd(model, dim=64, learning_rate=0.01, batch=batch, steps=2, loss_samples=8)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    tokens = 4000 * 64 * 4
    # Tokens twice (a background thread may hold the next batch), prefixes of two letters, their adjoint and scratch.
    assert peaks[1] < 8 * tokens
    assert peaks[1] < 64 * 64 * 4000 * 4 / 8
    assert peaks[1] < 2.2 * peaks[0]


def test_weak_progress_reaches_the_end():
    seen = []
    sgd(softmax(), **SMALL, times=[0, 0.2], seeds=[0, 1], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == pytest.approx(seen[-1][1])
    assert seen[-1][1] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 1}, "dim = 1 must be an integer of at least 2"),
        ({"dim": 24.0}, "dim = 24.0"),
        ({"learning_rate": 0}, "learning_rate = 0"),
        ({"learning_rate": float("nan")}, "learning_rate = nan"),
        ({"batch": 0}, "batch = 0"),
        ({"batch": True}, "batch = True"),
        ({"times": [0, 1], "steps": 3}, "either times"),
        ({"times": None}, "either times"),
        ({"times": [0.1, 1]}, "start at 0"),
        ({"times": [0, 1, 1]}, "increase strictly"),
        ({"times": [0, float("inf")]}, r"times\[1\] = inf is not finite"),
        ({"times": [0, 1e-6]}, "same step"),
        ({"times": []}, "give a list"),
        ({"times": None, "steps": [0, 0]}, "increase strictly"),
        ({"times": None, "steps": 2.5}, "must be integers"),
        ({"seed": -1}, "seed = -1"),
        ({"seeds": []}, "seeds is empty"),
        ({"seeds": [1, 1]}, "repeat"),
        ({"seed": 1, "seeds": [1]}, "one of seed"),
        ({"rng": 3}, "rng = 3"),
        ({"observables": "p_12"}, "is one name"),
        ({"observables": []}, "observables is empty"),
        ({"observables": ["p_13"]}, "does not fit"),
        ({"observables": ["tr(S1 S7)"]}, "S7"),
        ({"eigenvalues": ["S9"]}, "S9"),
        ({"dtype": "float16"}, "dtype"),
        ({"loss_samples": 0}, "loss_samples"),
    ],
)
def test_bad_arguments_are_named(change, message):
    with pytest.raises(aim.InputError, match=message):
        sgd(softmax(), **{**SMALL, "times": [0, 0.1], **change})


def test_a_model_with_nothing_to_train_is_refused():
    fixed = [direct(k, aim.Ginibre(1), trained=False) for k in (1, 2)]
    with pytest.raises(aim.InputError, match="nothing to simulate"):
        sgd(AttentionModel.of(*fixed, contexts=((1, 1),), loss=MeanSquaredError("linear")), **SMALL, steps=1)


def test_reading_what_was_not_measured():
    run = sgd(softmax(), **SMALL, steps=1, observables=["p_12"])
    with pytest.raises(aim.InputError, match=r"'q_12' was not measured; measured are p_12"):
        run["q_12"]
    assert "p_12" in run.table()
    assert "dim=24" in repr(run)
    assert np.isnan(run.standard_error("p_12")).all()
    assert len(run) == 2


def test_nonsymmetric_matrices_have_no_kept_eigenvalues():
    model = aim.models.load("direct-linear")
    with pytest.raises(aim.InputError, match="no symmetric matrix 'S1'"):
        sgd(model, **SMALL, steps=1, eigenvalues=["S1"])


def test_forms_have_the_covariance_of_theorem_1():
    """Cov(G_ijk, G_i'j'l) = C_ii' C_jj' q1_kl + C_ij' C_ji' q2_kl and mean C_ij m_k: exact at every d."""
    C = np.array([[1.0, 0.5], [0.5, 1.5]])
    model = AttentionModel.of(
        direct(1, aim.Ginibre(1)),
        direct(2, aim.Ginibre(1), trained=False),
        contexts=((1, 2, C),),
        loss=MeanSquaredError("linear"),
        centred=False,
    )
    rng = np.random.default_rng(1)
    S = {"S1": rng.standard_normal((14, 14)) / 4 + 0.1 * np.eye(14), "S2": rng.standard_normal((14, 14)) / 4}
    n = 200_000
    G = forms(model, S, n, rng).reshape(n, -1)
    stack = [S["S1"], S["S2"]]
    mean = np.array(
        [[[C[i, j] * np.trace(s) / np.sqrt(14) for s in stack] for j in range(2)] for i in range(2)]
    ).ravel()
    spread = G.std(axis=0) / np.sqrt(n)
    assert (np.abs(G.mean(axis=0) - mean) < 4.5 * spread).all()
    q1 = np.array([[np.vdot(a, b) for b in stack] for a in stack]) / 14
    q2 = np.array([[np.vdot(a, b.T) for b in stack] for a in stack]) / 14
    labels = [(i, j, k) for i in range(2) for j in range(2) for k in range(2)]
    for a, (i, j, k) in enumerate(labels):
        for b, (u, v, m) in enumerate(labels):
            product = (G[:, a] - mean[a]) * (G[:, b] - mean[b])
            expected = C[i, u] * C[j, v] * q1[k, m] + C[i, v] * C[j, u] * q2[k, m]
            assert abs(product.mean() - expected) < 4.5 * product.std() / np.sqrt(n), (a, b)
