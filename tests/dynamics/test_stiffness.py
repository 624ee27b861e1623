"""Stiff runs: implicit steps agree with explicit ones, with closed forms, and go where explicit ones cannot."""

import numpy as np
import pytest
from scipy.integrate import LSODA

import aimtheory as aim
from aimtheory.dynamics import stepping
from aimtheory.dynamics.stepping import StepPolynomial, Steps


def tied(activation, tokens, decay=0, student=1, teacher=1):
    return aim.AttentionModel.teacher_student(
        tokens=tokens, activation=activation, parameterization="tied", weight_decay=decay,
        student=aim.Wishart(width=student, trace=1), teacher=aim.Wishart(width=teacher, trace=1),
    )  # fmt: skip


def test_the_polynomial_of_a_step_is_that_of_the_method():
    """LSODA from a smooth start; degree at most 5 where it is implicit, so that degree 7 holds it exactly."""
    solver = LSODA(lambda t, y: [-1000 * (y[0] - np.cos(t)), -y[1]], 0.0, [0.0, 1.0], 3.0, rtol=1e-8, atol=1e-10)
    compared = 0
    while solver.status == "running":
        solver.step()
        piece = solver.dense_output()
        if piece.yh.shape[1] > 6:
            continue
        compared += 1
        step = StepPolynomial.of(piece)
        for x in (0.0, 0.21, 0.5, 0.83, 1.0):
            time = piece.t_old + x * (piece.t - piece.t_old)
            assert step(time) == pytest.approx(np.asarray(piece(time)), abs=1e-12)
    assert compared > 20


def test_a_stiff_equation_is_followed_implicitly():
    """y' = -k (y - cos t) - sin t has the solution cos t; explicit steps alone would be k t/6 of them."""
    k = 1e5
    steps = Steps(lambda t, y: -k * (y - np.cos(t)) - np.sin(t), np.array([1.0]), 10.0, 1e-9, 1e-11)
    worst, end = 0.0, 0.0
    for piece in steps:
        middle = 0.5 * (piece.t_old + piece.t)
        worst = max(worst, abs(piece(middle)[0] - np.cos(middle)))
        assert piece.t_old == end
        end = piece.t
    assert end == 10.0
    assert steps.implicit
    assert not steps.failed
    assert steps.evaluations < 5000
    assert worst < 1e-7


def test_growth_is_not_stiffness():
    steps = Steps(lambda _, y: 30 * y, np.array([1.0]), 1.0, 1e-9, 1e-11)
    last = list(steps)[-1]
    final = last(last.t)[0]
    assert not steps.implicit
    assert final == pytest.approx(np.exp(30), rel=1e-7)


@pytest.mark.parametrize(("closure", "degree"), [("exact", None), ("gns", 5), ("zero", 5)])
def test_weight_decay_of_a_million_is_solved(closure, degree):
    """S_1 = exp(-gamma t/2) S_1(0) up to O(1/gamma) while it lives, then Phi(0, q_22) = tr S_2^2 = 2 for ever."""
    gamma = 1e6
    times = [0.0, 2 / gamma, 8 / gamma, 1.0, 4.0]
    run = aim.solve(tied("linear", 1, gamma), closure=closure, degree=degree, times=times)
    assert run.status.code == "complete"
    assert run["t_1"][:3] == pytest.approx([1, np.exp(-1), np.exp(-4)], rel=1e-5)
    assert run["t_1"][3:] == pytest.approx([0, 0], abs=1e-10)
    assert run["loss"][3:] == pytest.approx([2, 2], rel=1e-9)


def test_implicit_steps_agree_with_explicit_ones(monkeypatch):
    """Weight decay of 400 against softmax gradients, events included."""
    model = tied("softmax", 2, 400, teacher=2)
    events = [aim.Event("t_1", 0.05), aim.Event("p_11", 1e-6)]
    options = {"closure": "gns", "degree": 5, "times": [0, 0.2, 3.0], "events": events, "check": False}
    implicit = aim.solve(model, **options)
    monkeypatch.setattr(stepping, "_LARGEST_JACOBIAN", 0)
    explicit = aim.solve(model, **options)
    assert implicit.evaluations < explicit.evaluations
    for name in ("loss", "p_12", "t_1"):
        assert implicit[name] == pytest.approx(explicit[name], rel=1e-7, abs=1e-10)
    for name, crossed in explicit.events.items():
        assert implicit.events[name] == pytest.approx(crossed, rel=1e-6)
        assert crossed


def test_late_times_of_the_linear_model_are_those_of_its_closed_form():
    """Couplings 1 and -1 for ever: W' = -(S - X) W, E = exp(X t), Y = (exp(2 X t) - 1)/X ([D] D.3)."""
    closed = aim.close(aim.models.load("exact-linear"), closure="exact")
    times = [0.0, 10.0, 1e3]
    run = aim.solve(closed.model, closure="exact", times=times, check=False)
    system, words = closed.system, closed.couplings.words
    couplings = closed.evaluate(closed.initial, None)[1].couplings
    driving, quadratic = couplings[system._linear], float(couplings @ system.flow.quadratic)
    speed = -(driving @ system._drivers)
    for n, time in enumerate(times[1:], start=1):
        # Y = 2 int g_11 E^2 at the nodes, in the variable Z = Y/(1 + E^2) that the closure carries.
        scaled = quadratic * np.tanh(speed * time) / speed
        expected = system.moments(words, np.concatenate([driving * time, scaled]))
        for word, value in zip(words, expected, strict=True):
            assert run[f"tr({word})"][n] == pytest.approx(value, rel=1e-7), (time, str(word))
