"""Untied attention: online SGD at finite d against the fast-slow limit, mean included.

Allowances for finite d (fourth cumulants of the forms and the like, O(1/d)) are stated where one is made.
"""

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.simulate import compare, sgd


def untied(activation, *, mean=0, teacher=None):
    return aim.AttentionModel.teacher_student(
        tokens=1,
        activation=activation,
        parameterization="untied",
        student=aim.GaussianFactors(width=1, left=1, right="1/2"),
        teacher=teacher or aim.Ginibre(variance=1, mean=mean),
    )


def test_linear_small(matrix_flows):
    """L = 1, linear: the mean gradient is that of the limit at every d, but for the fast mean, which is slaved here.

    In the boundary layer tr M_1 moves by (m_2 - m_1(0))/sqrt(d), and q1_12 with it by m_2/d; p_12 leaves that out.
    """
    model, dim, times = untied("linear", mean=1), 50, [0, 0.2, 0.4]
    names = ["p_12", "tr(A1)"]
    run = sgd(
        model, dim=dim, learning_rate=0.01, batch=64, times=times, seeds=range(4), observables=[*names, "m_1", "m_2"]
    )
    theory = matrix_flows(model, dim, range(4), times, names)
    result = compare(theory, run, names, finite_size=0.2 / dim)
    assert result.passes(), str(result)
    assert np.abs(result.theory[0, -1] - result.theory[0, 0]) > 20 * result.standard_error[0, -1]
    # m_1 has left its start for m_2, up to noise and the residual of order d^{-1/2} that is the bias.
    assert np.abs(run.values["m_1"][:, 1:] - run.values["m_2"][:, 1:]).max() < 0.25


def test_boundary_layer_small():
    """m_1(t) = m_2 + (m_1(0) - m_2) exp(-(t^A + t^B) t) in the fast time t = n learning_rate, overlaps frozen."""
    model, dim, rate = untied("linear", mean=1), 100, 0.02
    steps = np.array([0, 10, 25, 50, 100])
    run = sgd(
        model,
        dim=dim,
        learning_rate=rate,
        batch=256,
        steps=steps,
        seeds=range(4),
        observables=["m_1", "m_2", "tr(A1)", "tr(B1)", "q1_12"],
    )
    start, target = run.values["m_1"][:, :1], run.values["m_2"][:, :1]
    speed = run.values["tr(A1)"][:, :1] + run.values["tr(B1)"][:, :1]
    expected = target + (start - target) * np.exp(-speed * rate * steps)
    gap = run.values["m_1"] - expected
    error = gap.std(axis=0, ddof=1)[1:] / 2
    # 100 steps are tau = 0.02: the overlaps change by about 0.03, and t^A + t^B with them.
    assert (np.abs(gap.mean(axis=0)[1:]) < 4 * error + 0.02).all()
    assert np.abs(run["q1_12"][-1] - run["q1_12"][0]) < 0.04
    assert (np.abs(expected - start)[:, -1] > 0.3).any()


@pytest.mark.slow
def test_linear_at_d_200_against_the_limit():
    """Four seeds against gns at degree 7: no allowance; m_1 relaxes to m_2 = 0."""
    model, times = aim.models.load("untied-linear"), np.linspace(0, 0.6, 4)
    names = ["q1_12", "q2_12", "q1_11", "q2_11", "m_1"]
    run = sgd(model, dim=200, learning_rate=0.01, batch=128, times=times, seeds=range(4), observables=names)
    theory = aim.solve(model, degree=7, times=times, observables=names, check=False, rtol=1e-7, atol=1e-9)
    # m_1(0) = Tr U V^T/sqrt(d) has not relaxed at t = 0: its boundary layer is over at the next time.
    late = compare(theory, run, names[:-1])
    assert late.passes(), str(late)
    mean = run.values["m_1"][:, 1:]
    error = mean.std(axis=0, ddof=1) / np.sqrt(len(mean))
    assert (np.abs(mean.mean(axis=0) - theory["m_1"][1:]) < 4 * error).all()
    assert late.theory[0, -1] > 50 * late.standard_error[0, -1]


@pytest.mark.slow
@pytest.mark.parametrize(("activation", "mean"), [("linear", 1.0), ("hermite2", np.sqrt(0.5))])
def test_shifted_teacher_at_d_200_from_a_relaxed_mean(activation, mean, relaxed_flow):
    """Four streams of tokens from the same matrices, m_1 included: m* = m_2 = 1 for h_1; for h_2 it moves with q."""
    model, dim = untied(activation, mean=1), 200
    times = np.array([0, 0.05, 0.1, 0.2])
    names = ["p_12", "p_11", "m_1"]
    start, theory = relaxed_flow(model, dim, mean, times, names)
    run = sgd(
        model,
        dim=dim,
        learning_rate=0.01,
        batch=256,
        times=times,
        seeds=range(4),
        observables=names,
        initial=start,
    )
    result = compare(theory, run, ["p_12", "p_11"], finite_size=0.5 / dim)
    assert result.passes(), str(result)
    # m - m* is noise of a step and O(d^{-1/2}): the bias of (30), and the lag of the relaxation behind a moving m*.
    slaved = compare(theory, run, ["m_1"], finite_size=0.5 / np.sqrt(dim))
    assert slaved.passes(), str(slaved)
    moved = np.abs(result.theory[0, -1] - result.theory[0, 0])
    assert moved > 20 * result.standard_error[0, -1]
