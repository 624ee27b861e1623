"""The exact closure: its words obey the hierarchy, its numbers are known, and it says where it does not apply."""

import itertools

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.errors import AimTheoryError, InputError
from aimtheory.hierarchy import closure, closure_names, views
from aimtheory.hierarchy.closures import ClosureProblem
from aimtheory.hierarchy.closures.auto import Auto
from aimtheory.hierarchy.closures.exact import Exact
from aimtheory.hierarchy.closures.gns import Gns
from aimtheory.hierarchy.initial_moments import initial_law, matrix_family
from aimtheory.hierarchy.observables import trace_drift
from aimtheory.model import tied
from aimtheory.model.losses import ExpressionLoss, MeanSquaredError
from aimtheory.words import Polynomial


def teacher_student(student, teacher, *, tokens=1, activation="linear", weight_decay=0, **options):
    return aim.AttentionModel.teacher_student(
        tokens=tokens,
        activation=activation,
        parameterization="tied",
        student=student,
        teacher=teacher,
        weight_decay=weight_decay,
        **options,
    )


UNIT = aim.Wishart(width=1, trace=1)
PAIRS = {
    "hard edges": teacher_student(UNIT, UNIT, weight_decay=0.3),
    "narrow student": teacher_student(aim.Wishart(width="1/2", trace=1), aim.Wishart(width=2, trace=1)),
    "atoms": teacher_student(aim.Atomic([0, 1], ["1/3", "2/3"]), aim.Atomic(["1/2", 1, 2])),
    "indefinite teacher": teacher_student(UNIT, aim.GOE(variance=1), weight_decay=0.1),
}


def system_of(model, chosen=None, initial=None):
    problem = ClosureProblem(model, views(model), 3, initial)
    return (Exact() if chosen is None else chosen).close(problem)


def advanced(system, couplings, time, steps=400):
    """The state after a time at constant couplings, by the fourth-order Runge-Kutta rule."""
    state, h = system.initial, time / steps
    for _ in range(steps):
        a = system.drift(couplings, state)
        b = system.drift(couplings, state + h / 2 * a)
        c = system.drift(couplings, state + h / 2 * b)
        d = system.drift(couplings, state + h * c)
        state = state + h / 6 * (a + 2 * b + 2 * c + d)
    return state


@pytest.mark.parametrize("name", PAIRS)
def test_words_obey_the_hierarchy(name):
    """d tr w/dt along the state is what the Leibniz rule makes of it, in longer words, at any time and couplings."""
    model = PAIRS[name]
    seen = views(model)
    system = system_of(model)
    couplings = np.array([{"g_11": 0.7, "g_12": -0.9, "gamma": 0.4}[c.name] for c in seen.couplings])
    state = advanced(system, couplings, 0.4)
    velocity = system.drift(couplings, state)
    texts = [" ".join(word) for size in (1, 2, 3, 4) for word in itertools.product(("S1", "S2"), repeat=size)]
    for text in sorted({str(seen.parse(f"tr({text})")) for text in texts}):
        word = seen.parse(f"tr({text})")

        def moments(words, at=state):
            return system.moments(words, at)

        known = sum(
            value * float(trace_drift(seen, Polynomial({word: 1}), coupling)(moments))
            for value, coupling in zip(couplings, seen.couplings, strict=True)
        )
        h = 1e-3
        ahead, behind, far, back = (system.moments([word], state + k * h * velocity)[0] for k in (1, -1, 2, -2))
        slope = (8 * (ahead - behind) - (far - back)) / (12 * h)
        scale = max(1.0, abs(known))
        assert slope == pytest.approx(known, abs=1e-8 * scale), text


@pytest.mark.parametrize("name", PAIRS)
def test_the_start_is_that_of_the_free_family(name):
    model = PAIRS[name]
    seen = views(model)
    system, family = system_of(model), initial_law(model, seen)
    for size in range(1, 7):
        for letters in itertools.product(("S1", "S2"), repeat=size):
            word = seen.parse(f"tr({' '.join(letters)})")
            known = float(family.moment(letters))
            value = float(system.moments([word], system.initial)[0])
            assert value == pytest.approx(known, rel=1e-9, abs=1e-9), letters


def test_several_forms_of_one_fixed_matrix():
    """Teachers S_2 and S_3 = S_2^2 at once: the same words as gns, whose error shrinks with the degree."""
    student, teacher = tied(1, UNIT), tied(2, aim.Wishart(width=2, trace="1/2"), trained=False)
    model = aim.AttentionModel(
        parameters=(*student.parameters, *teacher.parameters),
        forms=(student.form, teacher.form, aim.Form("S3", "W2 W2^T W2 W2^T")),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", teachers=(1, 2)),
        weight_decay=0.5,
    )
    times = [0.1, 0.2]
    names = ["t_1", "q_11", "q_12", "q_13", "tr(S1 S1 S2)", "loss"]
    exact = aim.solve(model, degree=3, closure="exact", times=times, observables=names)
    assert exact.status.code == "complete"
    gaps = []
    for degree in (7, 11):
        run = aim.solve(model, degree=degree, closure="gns", times=times, observables=names, check=False)
        gaps.append(max(float(np.abs(run[name] - exact[name]).max()) for name in names))
    assert gaps[1] < 0.1 * gaps[0]
    assert gaps[1] < 1e-4


def test_a_student_without_a_teacher():
    """Nothing but its own norm: S_1 = S_0 (1 + 2 G S_0)^{-1}, every eigenvalue by itself."""
    model = aim.AttentionModel.of(
        tied(1, aim.Atomic([1, 3])),
        contexts=((1, 1),),
        loss=ExpressionLoss("G[0,0,0]**2", tokens=1, indices=1),
    )
    run = aim.solve(model, degree=3, closure="exact", times=[0.1, 1.0], observables=["t_1", "q_11"])
    # Phi = E G^2 = 2 q_11, so W' = -2 S W and lambda' = -4 lambda^2.
    values = np.array([[1 / (1 + 4 * t), 3 / (1 + 12 * t)] for t in run.times])
    assert run["t_1"] == pytest.approx(values.mean(axis=1), rel=1e-8)
    assert run["q_11"] == pytest.approx((values**2).mean(axis=1), rel=1e-8)


def test_what_does_not_apply_says_why_and_what_to_use():
    untied = aim.models.load("untied-hermite2")
    direct = aim.models.load("direct-hermite2")
    two_students = aim.AttentionModel.of(
        *(tied(k + 1, UNIT, trained=k < 2) for k in range(3)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=(0, 1), teachers=(2,)),
    )
    two_teachers = aim.AttentionModel.of(
        *(tied(k + 1, UNIT, trained=k < 1) for k in range(3)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", teachers=(1, 2)),
    )
    for model, reason in (
        (untied, "3 move"),
        (direct, "tied"),
        (two_students, "2 move"),
        (two_teachers, "do not commute"),
    ):
        with pytest.raises(InputError, match=reason) as caught:
            system_of(model)
        assert "gns" in str(caught.value)
        assert isinstance(Auto().resolve(ClosureProblem(model, views(model), 3, None)), Gns)


def test_a_correlated_start_is_refused():
    model = PAIRS["hard edges"]
    rng = np.random.default_rng(0)
    seen = views(model)
    W = rng.standard_normal((40, 40)) / 40**0.5
    family = matrix_family(seen, {"W1": W, "W2": W})
    with pytest.raises(InputError, match="correlated"):
        system_of(model, initial=family)
    assert isinstance(Auto().resolve(ClosureProblem(model, seen, 3, family)), Gns)


def test_an_indefinite_start_is_refused():
    with pytest.raises(InputError, match="positive"):
        system_of(teacher_student(aim.GOE(variance=1), UNIT))


def test_words_of_other_letters_are_refused():
    system, other = system_of(PAIRS["hard edges"]), views(aim.models.load("untied-hermite2"))
    with pytest.raises(InputError, match="matrix"):
        system.moments([other.parse("tr(M1 M1)")], system.initial)


def test_options():
    assert "exact" in closure_names()
    assert "auto" in closure_names()
    assert closure("exact", nodes=20).options == {"nodes": 20}
    for nodes in (7, 5000, 8.5, True):
        with pytest.raises(AimTheoryError, match="nodes"):
            closure("exact", nodes=nodes)


def test_auto_takes_exact_where_it_applies():
    for model in PAIRS.values():
        assert isinstance(Auto().resolve(ClosureProblem(model, views(model), 3, None)), Exact)


def test_the_second_rule_tells_the_error():
    model = PAIRS["hard edges"]
    seen = views(model)
    words = [seen.parse(text) for text in ("tr(S1)", "tr(S1 S1)", "tr(S1 S2)")]

    def moments(chosen):
        system = system_of(model, chosen)
        couplings = np.array([{"g_11": 1.0, "g_12": -1.0, "gamma": 0.3}[c.name] for c in seen.couplings])
        return system.moments(words, advanced(system, couplings, 1.0))

    fine = moments(Exact(nodes=64))
    rough = moments(Exact(nodes=12))
    assert np.abs(rough - moments(Exact(nodes=12).second_rule())).max() > np.abs(rough - fine).max() > 1e-6
    assert np.abs(fine - moments(Exact(nodes=64).second_rule())).max() < 1e-10
    assert Exact(nodes=8).second_rule() == Exact(nodes=16)  # no rule has fewer than 8
