"""Four routes to one right-hand side: sparse operators, sympy, lambdified functions, and gradient descent on matrices.

The last shares nothing with the engine: parameters are matrices, the population loss a number, its gradient a
complex step.
"""

from dataclasses import replace

import mpmath
import numpy as np
import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy import views, word_drift
from aimtheory.hierarchy.compiled import compile_hierarchy
from aimtheory.hierarchy.initial_moments import initial_moments, matrix_family
from aimtheory.hierarchy.lambdified import lambdified_drift
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.model import direct, tied, untied, written
from aimtheory.model.losses import ExpressionLoss, MeanSquaredError
from aimtheory.words import Letter, Polynomial

SIZES = {"d": 5, "r1": 3, "r2": 4, "r3": 6, "r": 2, "s": 3}
STEP = 1e-30


def letter(name, rows="d", columns="d", symmetric=False):
    return Letter(name, rows, columns, symmetric=symmetric)


def moving(attention, moves):
    return replace(attention, parameters=tuple(replace(p, trained=moves) for p in attention.parameters))


U, V, U2 = letter("U", "d", "r"), letter("V", "d", "r"), letter("U2", "d", "r")
LORA = written("S1", Polynomial.word(letter("S0")) + Polynomial.word(U, V.T))
X1, X2 = letter("X1", "d", "r"), letter("X2", "r", "s")
DEEP = written("S1", Polynomial.word(X1, X2, X2.T, X1.T))
HEADS = (written("S1", Polynomial.word(U, V.T)), written("S2", Polynomial.word(U2, V.T)))
V0 = letter("V0")
LAYERS = (
    written("S1", Polynomial.word(letter("Q1"))),
    written("S2", Polynomial.word(V0, letter("Q2"), V0.T)),
)
SKEW = written("S1", Polynomial.word(U, V.T) * "1/2" - Polynomial.word(V, U.T) * "3/2" + Polynomial.identity())

MODELS = {
    # name: (factorizations, trainable, degree)
    "tied": ((tied(1), tied(2)), (True, False), 4),
    "tied, two students": ((tied(1), tied(2), tied(3)), (True, True, False), 3),
    "untied": ((untied(1), untied(2)), (True, False), 2),
    "untied, Ginibre teacher": ((untied(1), direct(2, name="M")), (True, False), 3),
    "direct": ((direct(1), direct(2)), (True, False), 3),
    "tied, direct teacher": ((tied(1), direct(2)), (True, False), 3),
    "low-rank adaptation": ((LORA, direct(2, name="T")), (True, False), 2),
    "deep": ((DEEP, tied(2)), (True, False), 2),
    "two heads share a factor": ((*HEADS, direct(3, name="T")), (True, True, False), 2),
    "two layers": ((*LAYERS, direct(3, name="T")), (True, True, False), 3),
    "several terms": ((SKEW, direct(2, name="T")), (True, False), 2),
}


def build(name, *, centred=True, weight_decay=0):
    factorizations, trainable, degree = MODELS[name]
    students = tuple(k for k, moves in enumerate(trainable) if moves)
    teachers = tuple(k for k, moves in enumerate(trainable) if not moves)
    model = aim.AttentionModel.of(
        *(moving(f, moves) for f, moves in zip(factorizations, trainable, strict=True)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=students, teachers=teachers),
        weight_decay=weight_decay,
        centred=centred,
    )
    return model, degree


def parameters_of(model, seed):
    rng = np.random.default_rng(seed)
    letters = model.letters.values()
    result = {}
    for a in letters:
        matrix = rng.standard_normal((SIZES[a.rows], SIZES[a.columns])) / 2
        result[a.name] = matrix + matrix.T if a.symmetric else matrix
    return result


def evaluate(polynomial, parameters):
    total = 0
    for word, coefficient in polynomial:
        product = np.eye(SIZES[word.rows])
        for a in word:
            product = product @ (parameters[a.name].T if a.transposed else parameters[a.name])
        total = total + float(coefficient) * product
    return total


class Couplings:
    """Random gradients of a potential that is linear in the order parameters, so that they are known numbers."""

    def __init__(self, indices, seed):
        rng = np.random.default_rng(100 + seed)
        g1, g2 = rng.standard_normal((2, indices, indices))
        self.g1, self.g2 = (g1 + g1.T) / 2, (g2 + g2.T) / 2
        self.bias = rng.standard_normal(indices)

    def potential(self, model, parameters):
        """sum_kl g1_kl tr(S_k S_l^T) + g2_kl tr(S_k S_l) + sum_k beta_k tr(S_k), the mean only for uncentred forms."""
        S = [evaluate(form.matrix, parameters) for form in model.forms]
        d = SIZES["d"]
        value = 0
        for k, first in enumerate(S):
            for l, second in enumerate(S):
                value += (self.g1[k, l] * np.sum(first * second) + self.g2[k, l] * np.sum(first * second.T)) / d
            if not model.centred:
                value += self.bias[k] * np.trace(first) / d
        return value

    def value(self, coupling, decay):
        k, l = coupling.k, coupling.l
        return {
            "gradient": lambda: self.g1[k, l] + self.g2[k, l],
            "gradient_transposed": lambda: self.g1[k, l],
            "gradient_plain": lambda: self.g2[k, l],
            "bias": lambda: self.bias[k],
            "decay": lambda: decay,
        }[coupling.kind]()


def gradient_flow(model, parameters, couplings, decay):
    """d theta/ds = -d x (gradient of the population loss) - gamma theta, in units of the model's time."""
    trained = {a.name for a in model.trained_letters}
    flow = {}
    for name, matrix in parameters.items():
        velocity = np.zeros_like(matrix)
        if name in trained:
            for position in np.ndindex(matrix.shape):
                moved = {key: value.astype(complex) for key, value in parameters.items()}
                moved[name][position] += 1j * STEP
                velocity[position] = -SIZES["d"] * couplings.potential(model, moved).imag / STEP
            velocity -= decay * matrix
            velocity /= float(model.clock)
        flow[name] = velocity
    return flow


def trace_along(word, parameters, flow):
    """d tr(word)/dt along the flow, by a complex step."""
    moved = {name: matrix + 1j * STEP * flow[name] for name, matrix in parameters.items()}
    return np.trace(evaluate(Polynomial({word: 1}), moved)).imag / STEP / SIZES["d"]


def check_against_flow(model, degree, seed, decay):
    h = aim.derive(model, degree)
    parameters = parameters_of(model, seed)
    couplings = Couplings(len(model.forms), seed)
    flow = gradient_flow(model, parameters, couplings, decay)
    family = matrix_family(h.views, parameters)
    for word in h.words:
        expected = trace_along(h.views.expand(word), parameters, flow)
        total = 0.0
        for (coupling, target), coefficient in h.drift(word).items():
            # A trace is Tr/d whatever the space in which the word starts.
            moment = np.trace(evaluate(Polynomial({h.views.expand(target): 1}), parameters)) / SIZES["d"]
            if not h.views.by_parameters:
                assert family.moment(list(map(str, target))) == pytest.approx(moment, rel=1e-10, abs=1e-12)
            total += float(coefficient) * couplings.value(coupling, decay) * moment
        assert total == pytest.approx(expected, rel=1e-10, abs=1e-10), str(word)
        assert dict(h.drift(word)) == word_drift(word, h.views)
    return h


@pytest.mark.parametrize("name", [n for n in MODELS if n != "deep"])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_drift_is_gradient_descent_on_matrices(name, decay):
    model, degree = build(name, weight_decay=decay)
    check_against_flow(model, degree, 1, decay)


@pytest.mark.parametrize("name", ["untied", "untied, Ginibre teacher", "direct", "two heads share a factor"])
def test_drift_with_a_mean_is_gradient_descent_on_matrices(name):
    model, degree = build(name, centred=False, weight_decay=0.3)
    check_against_flow(model, min(degree, 2), 2, 0.3)


def test_low_rank_adaptation_of_a_frozen_matrix():
    """S = S0 + U V^T with S0 as it is: words of S0 alone are constant, all others move by the gradient of U and V."""
    model = aim.AttentionModel.of(
        written("S1", Polynomial.word(letter("S0")) + Polynomial.word(U, V.T), trained=("U", "V")),
        direct(2, name="T", trained=False),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear"),
        weight_decay=0.3,
    )
    h = check_against_flow(model, 2, 8, 0.3)
    constant = {name for name, fixed in zip(h.names, h.constant, strict=True) if fixed}
    assert constant == {name for name in h.names if set(name[3:-1].replace("^T", "").split()) <= {"S0", "T2"}}
    assert "tr(S0)" in constant


def test_deep_factorizations_are_read_in_their_parameters():
    """X1 X2 X2^T X1^T returns to the embedding space in infinitely many ways: the parameters are the letters.

    X1 and X2 have degree 1/4 and W2, of the teacher W2 W2^T, has 1/2: every attention matrix has degree 1.
    """
    model, degree = build("deep", weight_decay=0.3)
    seen = views(model)
    assert {str(a) for a in seen.alphabet.letters if not a.transposed} == {"X1", "X2", "W2"}
    assert str(seen.unit) == "1/4"
    assert {str(a): str(seen.letter_degree(a)) for a in seen.alphabet.letters if not a.transposed} == {
        "X1": "1/4",
        "X2": "1/4",
        "W2": "1/2",
    }
    h = aim.derive(model, degree)
    parameters, couplings = parameters_of(model, 3), Couplings(2, 3)
    flow = gradient_flow(model, parameters, couplings, 0.3)
    for word in h.words:
        expected = trace_along(word, parameters, flow)
        total = sum(
            float(c) * couplings.value(coupling, 0.3) * np.trace(evaluate(Polynomial({target: 1}), parameters)) / 5
            for (coupling, target), c in h.drift(word).items()
        )
        assert total == pytest.approx(expected, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize(
    ("name", "centred"), [*((name, True) for name in MODELS), ("untied", False), ("direct", False)]
)
def test_operators_equations_and_lambdified_functions_agree(name, centred):
    model, degree = build(name, centred=centred, weight_decay=1)
    h = aim.derive(model, degree)
    rng = np.random.default_rng(5)
    moments, couplings = rng.standard_normal(len(h)), rng.standard_normal(len(h.views.couplings))
    from_operators = sum(
        c * float(term.scale) * (term.matrix @ moments + term.source)
        for c, term in zip(couplings, h.operators, strict=True)
    )
    compiled = compile_hierarchy(h)
    assert compiled.drift(couplings, moments) == pytest.approx(from_operators, rel=1e-12, abs=1e-12)
    assert compiled.couplings == h.views.couplings
    by_numpy = np.array(lambdified_drift(h)(list(couplings), list(moments)), dtype=float)
    assert by_numpy == pytest.approx(from_operators, rel=1e-12, abs=1e-12)
    values = {moment_symbol(word): sp.Rational(float(m)) for word, m in zip(h.words, moments, strict=True)}
    values |= {c.symbol: sp.Rational(float(v)) for c, v in zip(h.views.couplings, couplings, strict=True)}
    values |= {moment_symbol(word): sp.S.Zero for word in h.missing}
    exact = [equation.xreplace(values) for equation in h.equations.values()]
    assert from_operators == pytest.approx([float(e) for e in exact], rel=1e-12, abs=1e-12)
    with mpmath.workdps(40):
        precise = lambdified_drift(h, "mpmath")(list(map(mpmath.mpf, couplings)), list(map(mpmath.mpf, moments)))
        for value, reference in zip(precise, exact, strict=True):
            reference = mpmath.mpf(reference.p) / reference.q
            assert abs(value - reference) <= mpmath.mpf(10) ** -36 * (1 + abs(reference))
    assert (from_operators[h.constant] == 0).all()
    assert set(np.flatnonzero(~h.constant)) >= set(compiled.moving)


def test_a_letter_that_moves_along_the_identity_has_a_source():
    """dS_1/dt = -beta_1 1 - ...: d tr(S_1)/dt has the term -beta_1 tr(1) = -beta_1, which is no moment."""
    model, _ = build("direct", centred=False)
    h = aim.derive(model, 2)
    trace = h.index("tr(S1)")
    sources = {str(term.coupling.name): term.source[trace] * term.scale for term in h.operators if term.source.any()}
    assert sources == {"beta_1": -1}
    beta = sp.Symbol("beta_1", real=True)
    assert h.equations[h.words[trace]].subs(beta, 1) - h.equations[h.words[trace]].subs(beta, 0) == -1
    assert h.graph.nodes["tr(S1)"]["source"] == -beta
    assert "tr(1)" not in h.graph
    assert h.missing == ()
    restricted = aim.derive(model, 2, observables=["q1_12"])
    assert "tr(S1)" in restricted.names


def test_lambdified_functions_refuse_other_modules():
    with pytest.raises(aim.InputError, match="numpy"):
        lambdified_drift(aim.derive(aim.models.load("exact-linear"), 2), "os")


@pytest.mark.parametrize("name", ["tied", "untied", "direct", "low-rank adaptation", "two heads share a factor"])
def test_initial_moments_of_given_matrices(name):
    model, degree = build(name)
    h = aim.derive(model, degree)
    parameters = parameters_of(model, 6)
    family = matrix_family(h.views, parameters)
    expected = [np.trace(evaluate(Polynomial({h.views.expand(w): 1}), parameters)) / SIZES["d"] for w in h.words]
    assert initial_moments(h, family) == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_several_indices_and_a_general_loss():
    """A loss of three trained matrices without a teacher moves them all."""
    loss = ExpressionLoss("(G[0,0,0]*G[0,0,1] - G[0,0,2])**2", tokens=1, indices=3)
    model = aim.AttentionModel.of(*(tied(k, aim.Wishart(width=1)) for k in (1, 2, 3)), contexts=((1, 1),), loss=loss)
    h = check_against_flow(model, 2, 7, 0.0)
    assert not h.constant.any()
