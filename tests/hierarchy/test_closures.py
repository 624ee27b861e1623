"""Closures: exact at time zero to their degree, equal to the matrix flow or the operators, found by file."""

import gc
import importlib
import pkgutil
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

import aimtheory as aim
from aimtheory.hierarchy import Closure, closure, closure_names, closures, views
from aimtheory.hierarchy.closures import ClosureProblem
from aimtheory.hierarchy.closures.zero import Zero
from aimtheory.hierarchy.initial_moments import initial_law, initial_moments, matrix_family
from aimtheory.model import direct, tied, untied, written
from aimtheory.model.losses import MeanSquaredError
from aimtheory.words import Letter, Polynomial

LAWS = {
    "narrow Wishart": aim.Wishart(width="1/2", trace=1),
    "wide Wishart": aim.Wishart(width=3, trace="2/3"),
    "two atoms": aim.Atomic([0, 1], ["1/3", "2/3"]),
    "three atoms": aim.Atomic([Fraction(1, 2), 1, 2]),
    "float Wishart": aim.Wishart(width=0.7, trace=1.3),
    "GOE": aim.GOE(variance=1),
    "spectrum": aim.Empirical(np.linspace(0.1, 1.7, 9)),
}


def tied_model(student, *teachers, weight_decay=0.2):
    return aim.AttentionModel.of(
        tied(1, LAWS[student]),
        *(
            tied(k, LAWS[t], trained=False) if LAWS[t].support[0][0] >= 0 else symmetric_matrix(k, LAWS[t])
            for k, t in enumerate(teachers, start=2)
        ),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", teachers=tuple(range(1, len(teachers) + 1))),
        weight_decay=weight_decay,
    )


def symmetric_matrix(k, law):
    return direct(k, law, trained=False, symmetric=True)


def system_of(model, degree, name="gns", initial=None, **options):
    seen = views(model)
    return closure(name, **options).close(ClosureProblem(model, seen, degree, initial))


def derivative_of_moments(system, words, couplings, step=1e-3):
    """d/dt of moments along the drift of the closed system, by twice extrapolated central differences."""
    start = system.initial
    velocity = system.drift(couplings, start)

    def difference(h):
        ahead, behind = (system.moments(words, start + sign * h * velocity) for sign in (1, -1))
        return (ahead - behind) / (2 * h)

    first, second, third = difference(step), difference(step / 2), difference(step / 4)
    a, b = (4 * second - first) / 3, (4 * third - second) / 3
    return (16 * b - a) / 15


PAIRS = [
    ("narrow Wishart", ["two atoms"]),
    ("wide Wishart", ["GOE"]),
    ("two atoms", ["narrow Wishart"]),
    ("three atoms", ["three atoms"]),
    ("float Wishart", ["spectrum"]),
    ("narrow Wishart", ["GOE", "two atoms"]),
]


@pytest.mark.parametrize(("student", "teachers"), PAIRS)
@pytest.mark.parametrize("degree", [2, 3, 5, 6, 7])
def test_gns_moments_and_drift_are_exact_at_time_zero(student, teachers, degree):
    model = tied_model(student, *teachers)
    system = system_of(model, degree)
    m = (degree - 1) // 2
    exact = 2 * m + 1
    assert system.exact_degree == exact == degree - 1 + degree % 2
    h = aim.derive(model, max(exact, 2))
    law = initial_law(model, h.views)
    moments = {w: float(law.moment(list(map(str, w)))) for w in [*h.words, *h.missing]}
    kept = [word for word in h.words if len(word) <= exact]
    found = system.moments(kept, system.initial)
    assert found == pytest.approx([moments[w] for w in kept], rel=1e-10, abs=1e-10)
    rng = np.random.default_rng(degree)
    couplings = rng.standard_normal(len(h.views.couplings))
    named = dict(zip(h.views.couplings, couplings, strict=True))
    slow = [word for word in h.words if len(word) <= 2 * m]
    if slow:
        expected = [sum(float(c) * named[g] * moments[t] for (g, t), c in h.drift(w).items()) for w in slow]
        assert derivative_of_moments(system, slow, couplings) == pytest.approx(expected, rel=2e-8, abs=2e-8)


def test_gns_keeps_its_word_only_to_its_degree():
    """One degree further the compressed moment differs: the closure does approximate."""
    model = tied_model("narrow Wishart", "wide Wishart")
    system, h = system_of(model, 5), aim.derive(model, 6)
    law = initial_law(model, h.views)
    gaps = [
        abs(system.moments([w], system.initial)[0] - float(law.moment(list(map(str, w)))))
        for w in h.words
        if len(w) == 6
    ]
    assert max(gaps) > 1e-3


def test_gns_size_and_terminating_laws():
    assert len(views(tied_model("narrow Wishart", "wide Wishart")).alphabet) == 2
    for m in (1, 2, 3, 4):
        system = system_of(tied_model("narrow Wishart", "wide Wishart"), 2 * m + 1)
        assert system.initial.size == (2 ** (m + 1) - 1) ** 2
    small = system_of(tied_model("two atoms", "two atoms"), 9)
    assert small.initial.size < (2**5 - 1) ** 2


def test_gns_is_positive():
    """The compressed student is a compression of a positive matrix, so positive; a spectral measure has unit mass."""
    system = system_of(tied_model("narrow Wishart", "wide Wishart"), 9)
    letter = system.moving[0]
    matrix = system.matrices(system.initial)[letter]
    assert np.linalg.eigvalsh(matrix).min() > -1e-12
    measure = system.spectral_measure(letter, system.initial)
    assert measure.weights.sum() == pytest.approx(1)
    assert measure.nodes @ measure.weights == pytest.approx(1)


MATRIX_MODELS = ["tied-softmax", "untied-linear", "direct-linear"]


@pytest.mark.parametrize("name", MATRIX_MODELS)
def test_matrix_closure_on_given_parameters(name):
    """State, moments and drift against matrices multiplied out here: dS = -(H S + S H), dM = -(H B + A H), dS = -H."""
    model = aim.models.load(name)
    seen = views(model)
    rng = np.random.default_rng(1)
    d = 6
    parameters = {a.name: rng.standard_normal((d, 4 if a.columns != "d" else d)) / 2 for a in model.letters.values()}
    system = system_of(model, 3, "matrix", matrix_family(seen, parameters))
    couplings = rng.standard_normal(len(seen.couplings))
    named = {c.name: v for c, v in zip(seen.couplings, couplings, strict=True)}
    drift = {
        str(a): block.reshape(d, d)
        for a, block in zip(
            system.moving, np.split(system.drift(couplings, system.initial), len(system.moving)), strict=True
        )
    }
    if name == "tied-softmax":
        S1, S2 = (parameters[w] @ parameters[w].T for w in ("W1", "W2"))
        H = named["g_11"] * S1 + named["g_12"] * S2
        assert drift.keys() == {"S1"}
        assert drift["S1"] == pytest.approx(-(H @ S1 + S1 @ H), rel=1e-12, abs=1e-12)
        word, value = "tr(S1 S2 S2 S1 S2)", np.trace(S1 @ S2 @ S2 @ S1 @ S2) / d
    else:
        first = parameters["U1"] @ parameters["V1"].T if name == "untied-linear" else parameters["S1"]
        second = parameters["M2"] if name == "untied-linear" else parameters["S2"]
        H = 2 * sum(named[f"g1_1{l}"] * S + named[f"g2_1{l}"] * S.T for l, S in ((1, first), (2, second)))
        if name == "untied-linear":
            A, B = parameters["U1"] @ parameters["U1"].T, parameters["V1"] @ parameters["V1"].T
            G = H + named["beta_1"] * np.eye(d)
            assert drift.keys() == {"M1", "A1", "B1"}
            assert drift["M1"] == pytest.approx(-(G @ B + A @ G), rel=1e-12, abs=1e-12)
            assert drift["A1"] == pytest.approx(-(G @ first.T + first @ G.T), rel=1e-12, abs=1e-12)
            assert drift["B1"] == pytest.approx(-(G.T @ first + first.T @ G), rel=1e-12, abs=1e-12)
            word, value = "tr(M1 A1 M2^T B1)", np.trace(first @ A @ second.T @ B) / d
        else:
            assert drift.keys() == {"S1"}
            assert drift["S1"] == pytest.approx(-H, rel=1e-12, abs=1e-12)
            word, value = "tr(S1 S1 S2^T)", np.trace(first @ first @ second.T) / d
    assert system.moments([seen.parse(word)], system.initial)[0] == pytest.approx(value, rel=1e-12)
    assert closure("matrix").coarser_degree(9) is None


def test_matrix_closure_of_a_form_with_a_mean():
    """dS = -beta 1 - 2 sum (g1 S + g2 S^T): the identity is multiplied out as a matrix."""
    model = aim.AttentionModel.teacher_student(
        tokens=1, activation="linear", parameterization="direct", centred=False,
        student=aim.Ginibre(variance=1), teacher=aim.Ginibre(variance=1),
    )  # fmt: skip
    system = system_of(model, 2, "matrix", dim=5, seed=3)
    only_bias = np.array([c.kind == "bias" for c in views(model).couplings], dtype=float)
    assert only_bias.sum() == 1
    assert system.drift(only_bias, system.initial).reshape(5, 5) == pytest.approx(-np.eye(5))


def test_matrix_closure_samples_reproducibly():
    model = aim.models.load("untied-linear")
    first, same, other = (system_of(model, 2, "matrix", dim=12, seed=s).initial for s in (4, 4, 5))
    assert (first == same).all()
    assert not (first == other).all()
    # The sampled views are products of one pair of factors: A B and M M^T share their trace up to rounding.
    seen, system = views(model), system_of(model, 2, "matrix", dim=12, seed=4)
    left, right = system.moments([seen.parse("tr(M1 M1^T)"), seen.parse("tr(U1 V1^T V1 U1^T)")], system.initial)
    assert left == pytest.approx(right)


@pytest.mark.parametrize("degree", [2, 4, 6])
def test_zero_closure_is_the_operators(degree):
    model = tied_model("narrow Wishart", "two atoms")
    system, h = system_of(model, degree, "zero"), aim.derive(model, degree)
    law = initial_law(model, h.views)
    assert system.initial == pytest.approx([float(law.moment(list(map(str, w)))) for w in h.words], rel=1e-13)
    couplings = np.random.default_rng(2).standard_normal(len(h.views.couplings))
    expected = sum(
        c * float(term.scale) * (term.matrix @ system.initial) for c, term in zip(couplings, h.operators, strict=True)
    )
    assert system.drift(couplings, system.initial) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert system.moments([h.words[3], h.words[0]], system.initial) == pytest.approx(system.initial[[3, 0]])
    longer = aim.derive(model, degree + 1).words[-2]
    with pytest.raises(aim.InputError, match="raise the degree"):
        system.moments([longer], system.initial)
    with pytest.raises(aim.InputError, match="closure='gns'"):
        system.spectral_measure(h.views.trainable_letters[0], system.initial)


def test_zero_and_gns_agree_below_the_truncation():
    """Same data, same drift: for words of degree M - 1 nothing has been cut yet."""
    model = tied_model("narrow Wishart", "GOE")
    zero, gns, h = system_of(model, 5, "zero"), system_of(model, 5), aim.derive(model, 5)
    couplings = np.array([0.3, -0.7, 0.2])
    words = [word for word in h.words if len(word) <= 4]
    drift = zero.drift(couplings, zero.initial)[[h.index(word) for word in words]]
    assert derivative_of_moments(gns, words, couplings) == pytest.approx(drift, rel=2e-8, abs=2e-8)


def test_initial_law_errors():
    with pytest.raises(aim.InputError, match=r"Atomic.* does not fit untied attention"):
        untied(1, aim.Atomic([1]))
    U, V = (Letter(name, "d", "r") for name in "UV")
    atoms = written("M1", Polynomial.word(U, V.T), dict.fromkeys("UV", aim.SquareRoot(aim.Atomic([1]))))
    lost = aim.AttentionModel.of(
        atoms, direct(2, aim.Ginibre(), name="M", trained=False), contexts=((1, 1),), loss=MeanSquaredError("linear")
    )
    with pytest.raises(aim.InputError, match=r"no moments follow from the law SquareRoot.* of U in M1 = U V\^T"):
        system_of(lost, 3)
    with pytest.raises(aim.InputError, match="no moments follow"):
        initial_moments(aim.derive(lost, 2))
    model = tied_model("narrow Wishart", "two atoms")
    with pytest.raises(aim.InputError, match="starts from matrices"):
        system_of(model, 3, "matrix", initial_law(model, views(model)))
    for name in ("zero", "matrix"):
        with pytest.raises(aim.InputError, match=r"letters S1; this model needs S1, S2"):
            system_of(model, 3, name, aim.MatrixFamily({"S1": np.eye(3)}))
    with pytest.raises(aim.InputError, match="no matrix was given for W2; given are W1"):
        matrix_family(views(model), {"W1": np.eye(3)})


# Adding a closure is adding a file.


def test_every_module_registers_its_closure():
    modules = {m.name for m in pkgutil.iter_modules(closures.__path__)} - {"closure"}
    assert set(closure_names()) >= modules >= {"gns", "matrix", "zero"}
    for name in modules:
        assert isinstance(closure(name), Closure)
        assert type(closure(name)).__module__ == f"aimtheory.hierarchy.closures.{name}"
        assert closure(closure(name)).name == name


def test_a_new_file_is_a_new_closure(tmp_path, monkeypatch):
    (tmp_path / "echo.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from aimtheory.hierarchy.closures.zero import Zero\n"
        "@dataclass(frozen=True)\n"
        "class Echo(Zero):\n"
        "    order: int = 1\n"
        "    name: ClassVar[str] = 'echo'\n"
    )
    monkeypatch.setattr(closures, "__path__", [*closures.__path__, str(tmp_path)])
    closures._load_own.cache_clear()
    try:
        assert "echo" in closure_names()
        assert closure("echo", order=3).order == 3
        assert type(closure("zero")).__name__ == "Zero"
        system = system_of(aim.models.load("exact-linear"), 2, "echo")
        assert len(system.initial) == 5
    finally:
        sys.modules.pop("aimtheory.hierarchy.closures.echo", None)
        closures.__dict__.pop("echo", None)
        closures._load_own.cache_clear()
        importlib.invalidate_caches()


def define_renamed(rank=2, called="renamed", base=Zero):
    @dataclass(frozen=True)
    class Renamed(base):
        order: int = rank
        name: ClassVar[str] = called

    return Renamed


def test_a_closure_defined_after_the_first_solve_is_known_by_name():
    model = aim.models.load("exact-linear")
    before = aim.solve(model, degree=4, times=[0, 0.05], closure="zero", check=False)
    late = define_renamed()
    after = aim.solve(model, degree=4, times=[0, 0.05], closure="renamed", check=False, order=5)
    assert isinstance(after.closure, late)
    assert after.closure.options == before.closure.options
    assert after.closure.order == 5
    assert np.array_equal(after["p_12"], before["p_12"])
    # Defined again, as in a notebook whose cell is run twice: the last one counts. So does a class of a class.
    again = define_renamed(rank=7)
    assert type(closure("renamed")) is again
    assert closure("renamed").order == 7
    variant = define_renamed(called="variant", base=again)
    assert type(closure("variant")) is variant
    assert type(closure("renamed")) is again


def test_a_name_that_two_closures_claim_is_refused():
    @dataclass(frozen=True)
    class Rival(Zero):
        name: ClassVar[str] = "gns"

    try:
        with pytest.raises(aim.InputError, match=r"'gns' is the name of .*Gns, .*Rival; rename one"):
            closure("gns")
        assert closure(Rival()).name == "gns"
    finally:
        del Rival
        gc.collect()
    assert type(closure("gns")).__name__ == "Gns"


def test_an_error_inside_a_closure_is_its_own():
    @dataclass(frozen=True)
    class Faulty(Zero):
        size: int = 0
        name: ClassVar[str] = "faulty"

        def __post_init__(self):
            len(self.size)

    with pytest.raises(TypeError, match="has no len"):
        closure("faulty", size=1)
    with pytest.raises(aim.InputError, match="is a class; give a value"):
        closure(Faulty)
    with pytest.raises(aim.InputError, match="unknown closure"):
        closure(["gns"])


def test_unknown_closures_and_options():
    with pytest.raises(aim.InputError, match=r"unknown closure 'gauss'; choose one of .*gns, matrix, .*zero"):
        closure("gauss")
    with pytest.raises(aim.InputError, match="'zero' does not take the options dim"):
        closure("zero", dim=3)
    with pytest.raises(aim.InputError, match="dim"):
        system_of(aim.models.load("tied-linear"), 2, "matrix", dim=1)


def test_the_flow_of_matrices_keeps_their_rank():
    """S_1 of rank 8 and a teacher of full rank, far beyond the time at which the flow of S itself leaves the cone."""
    model = aim.AttentionModel.teacher_student(
        tokens=1,
        activation="linear",
        parameterization="tied",
        student=aim.Wishart(width="1/5", trace="1/2"),
        teacher=aim.Wishart(width=1, trace=1),
    )
    run = aim.solve(
        model, degree=2, closure="matrix", dim=40, times=[0, 5, 10], observables=["loss"], check=False, rtol=1e-7
    )
    assert run.status.code in ("complete", "unchecked")
    spectrum = np.sort(run.spectral_measure(10.0).nodes)
    assert np.abs(spectrum[:32]).max() < 1e-12 * spectrum[-1]
    assert spectrum[32] > 1e-3
    assert (np.diff(run["loss"]) < 0).all()
