"""One small result of every kind, and every way to start a trajectory; read by the tests in a fresh process."""

from pathlib import Path

import numpy as np
import sympy as sp

import aimtheory as aim
from aimtheory.bayes import FirstOrderTransition, LearningCurve, SoftmaxChannel, StateEvolution, make_prior, threshold
from aimtheory.bayes import phase_diagram as bayes_diagram
from aimtheory.dynamics import truncation_study
from aimtheory.hierarchy import views
from aimtheory.hierarchy.initial_moments import initial_law
from aimtheory.simulate import amp, compare, gradient_descent, sgd
from aimtheory.spectra import JointMoments, SpectralMeasure

UNSTORED = ("tr(S1 S1 S2)", "q_22")
"""Observables that the trajectories below do not store."""


def starts():
    """Trajectories by what they start from, with the model's laws, given moments and given matrices."""
    model = aim.models.load("exact-linear")
    rng = np.random.default_rng(1)
    factors = {"W1": rng.normal(size=(12, 6)) / 4, "W2": rng.normal(size=(12, 12)) / 4}
    gram = {f"S{n}": w @ w.T for n, w in enumerate(factors.values(), 1)}
    words = [(), ("S1",), ("S2",)]
    for _ in range(6):
        words += [(*word, letter) for word in words for letter in ("S1", "S2") if len(word) < 7]
        words = list(dict.fromkeys(words))
    family = aim.MatrixFamily(gram)
    table = JointMoments({word: family.moment(word) for word in words if word})
    times = {"times": [0, 0.05, 0.1], "observables": ["t_1", "p_12", "loss"]}
    common = {**times, "check": False}
    return {
        "law": aim.solve(model, degree=5, **times),
        "zero": aim.solve(model, degree=4, closure="zero", **common),
        "matrix": aim.solve(model, degree=4, closure="matrix", dim=12, seed=5, **common),
        "moments": aim.solve(model, degree=5, initial=table, **common),
        "family": aim.solve(model, degree=7, initial=family, **common),
        "parameters": aim.solve(model, degree=4, closure="matrix", initial=factors, **common),
        "event": aim.solve(
            aim.models.load("direct-linear"), degree=2, closure="zero", times=[0, 1], observables=["t_1"],
            events=[aim.Event("p_11", 0.8), aim.Event("q_12", 0.1, terminal=True)],
        ),
        "mean": aim.solve(
            aim.models.load("untied-hermite2"), degree=3, times=[0, 0.2], observables=["m_1"], check=False,
            initial_mean=[0.3, 0.0],
        ),
    }  # fmt: skip


def results():
    """By name, one of every kind."""
    softmax, linear = aim.models.load("tied-softmax"), aim.models.load("exact-linear")
    evolution = StateEvolution(make_prior("1/2"), SoftmaxChannel(2))
    run = aim.solve(linear, degree=4, times=[0, 0.05, 0.1], observables=["t_1", "p_12"])
    trained = sgd(
        linear, dim=12, learning_rate=0.1, batch=4, times=[0, 0.05, 0.1], seeds=[3, 4, 5],
        observables=["t_1", "p_12"], eigenvalues=["S1"], snapshots=True,
    )  # fmt: skip

    def build(width, scale):
        return aim.AttentionModel.teacher_student(
            tokens=1, activation="linear", parameterization="tied",
            student=aim.Wishart(width, scale), teacher=aim.Wishart(1, 1),
        )  # fmt: skip

    jump = FirstOrderTransition(0.1, (0.0, 0.2), 1.0, 0.0, 0.3)
    return {
        **{f"trajectory-{name}": value for name, value in starts().items()},
        "derivation": aim.derive(softmax, 3, ["p_12"]),
        "truncation": truncation_study(linear, degrees=[4, 6], times=[0.05, 0.1]),
        "recovery": aim.recovery(aim.models.load("direct-hermite2"), horizon=0.5),
        "recovery-diagram": aim.recovery_diagram(build, first=("width", [0.5, 1.0]), second=("trace", [0.5, 1.0])),
        "precise": aim.solve_to_digits(linear, degree=3, times=["1/10"], digits=40),
        "fast-flow": aim.fast_flow(aim.models.load("untied-linear"), times=[0, 1, 2], initial_mean=[1, 0]),
        "measure": SpectralMeasure(np.array([0.5, 1.5]), np.array([0.25, 0.75])),
        "sgd": trained,
        "comparison": compare(run, trained),
        "amp": amp("softmax", tokens=2, width=0.5, alpha=0.1, dim=24, seeds=range(2), iterations=6),
        "amp-noise": amp("linear", tokens=2, width=0.5, alpha=0.4, dim=20, seeds=[1], iterations=4, noise=0.25),
        "descent": gradient_descent(
            "softmax", tokens=2, width=0.5, alpha=0.1, dim=12, seeds=range(2), steps=4, initializations=2
        ),
        "fixed-point": evolution.solve(0.05),
        "perfect": evolution.fixed_points(0.1)[-1],
        "branch": evolution.curve([0.0, 0.1, 0.3]),
        "learning": LearningCurve(evolution.curve([0.1, 0.2]), "softmax", 2, "1/2", 0.1875, (jump,), ("0.39", None)),
        "fixed-point-curve": evolution.fixed_point_curve,
        "diagram": bayes_diagram("softmax", 2, [0.5, 1.0], [0.1, 0.2]),
        "threshold": threshold(width="1/2"),
        "irrational": threshold(width=sp.sqrt(2) / 3),
        "estimated": threshold(channel="sign", kind="weak", width=0),
        "softmax": aim.solve(softmax, degree=3, times=[0, 0.1]),
    }


def random_models(count=10, seed=7):
    """Models of random laws, activations, tokens and weight decays; uncentred where they are untied."""
    rng = np.random.default_rng(seed)

    def number(low=0.4, high=2.0):
        return float(rng.uniform(low, high)) if rng.random() < 0.5 else f"{rng.integers(2, 8)}/{rng.integers(3, 6)}"

    laws = {
        "tied": [
            lambda: aim.Wishart(number(), number()),
            lambda: aim.Wishart(sp.sqrt(2), number()),
            lambda: aim.Atomic([0.5, number()], ["1/3", "2/3"]),
            lambda: aim.Empirical(rng.uniform(0.1, 2, 5)),
            lambda: aim.UserDensity(lambda x: 0.5 + 0 * x, [(0.5, 2.5)]),
        ],
        "untied": [lambda: aim.GaussianFactors(number(), number(), number())],
        "direct": [lambda: aim.Ginibre(number()), lambda: aim.GOE(number())],
    }
    for n in range(count):
        kind = ("tied", "tied", "untied", "direct")[n % 4]
        student, teacher = (laws[kind][rng.integers(len(laws[kind]))]() for _ in range(2))
        yield aim.AttentionModel.teacher_student(
            tokens=int(rng.integers(1, 3)),
            activation=str(rng.choice(["linear", "hermite2"] if kind == "untied" else ["linear", "erf", "tanh(x)"])),
            parameterization=kind,
            student=student,
            teacher=teacher,
            weight_decay=number(0, 1),
            centred=kind != "untied",
        )


def initials(model, dim=8):
    """Every way to start a trajectory, by what ``initial`` is."""
    matrices = model.sample(dim, np.random.default_rng(3))
    seen = views(model)
    family = aim.MatrixFamily({str(letter): _read(matrices, seen, letter) for letter in seen.alphabet.letters})
    words = [tuple(map(str, word)) for word in aim.derive(model, 3).words]
    return {
        "laws": {},
        "initial law": {"initial": initial_law(model, seen)},
        "family": {"initial": family},
        "moments": {"initial": JointMoments({word: family.moment(word) for word in words})},
        "parameters": {"closure": "matrix", "initial": matrices},
        **({} if model.centred else {"mean": {"initial_mean": [0.5, 0.0]}}),
    }


def _read(matrices, seen, view):
    """The matrix that a view of the parameters stands for."""
    if view.transposed:
        return _read(matrices, seen, view.T).T
    found = np.eye(len(next(iter(matrices.values()))))
    for letter in seen.expansion[view]:
        found = found @ (matrices[letter.name].T if letter.transposed else matrices[letter.name])
    return found


def read_and_write(folder):
    """In another process: load every file, write it again as JSON, and return what unstored observables are."""
    read = {}
    for path in sorted(Path(folder).iterdir()):
        result = aim.load(path)
        if isinstance(result, aim.Trajectory):
            read |= {(path.name, name): result[name] for name in unstored(path.stem)}
        result.save(path.with_name(f"{path.stem}.back.json"))
    return read


def unstored(name):
    """Observables that the trajectory of this name does not store."""
    short = name in ("trajectory-event", "trajectory-mean") or name.startswith("random")
    return ("q1_12", "loss") if short else UNSTORED
