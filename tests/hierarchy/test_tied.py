"""Tied attention: the hierarchy against [D] (11), (356) and (340)-(341), each written out here on its own."""

from fractions import Fraction

import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy import Coupling, word_drift
from aimtheory.hierarchy.moments import moment_symbol
from aimtheory.model import tied
from aimtheory.model.losses import MeanSquaredError
from aimtheory.words import Letter, Polynomial, Word, canonical_trace


def tied_model(trainable, weight_decay=0):
    students = tuple(k for k, moves in enumerate(trainable) if moves)
    teachers = tuple(k for k, moves in enumerate(trainable) if not moves)
    law = aim.Wishart(width=1, trace=1)
    return aim.AttentionModel.of(
        *(tied(k, law, trained=moves) for k, moves in enumerate(trainable, start=1)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=students, teachers=teachers),
        weight_decay=weight_decay,
    )


def bracelet(word):
    """The least of all rotations of a tuple of indices and of its reversal."""
    return min(form[k:] + form[:k] for form in (word, word[::-1]) for k in range(len(word)))


def equation_11(word, trainable, decay):
    """-sum_i sum_l g_{k_i l} (mu, l before position i + mu, l after it) - (gamma/2) |word|_K mu: a dictionary."""
    result = {}

    def add(key, value):
        result[key] = result.get(key, 0) + value

    for i, k in enumerate(word):
        if not trainable[k]:
            continue
        for other in range(len(trainable)):
            pair = (min(k, other), max(k, other))
            add((pair, bracelet((*word[:i], other, *word[i:]))), Fraction(-1))
            add((pair, bracelet((*word[: i + 1], other, *word[i + 1 :]))), Fraction(-1))
        if decay:
            add(("gamma", bracelet(word)), Fraction(-1, 2))
    return result


def as_indices(word):
    return tuple(int(str(letter)[1:]) - 1 for letter in word)


def as_plain(drift):
    """The engine's drift with words as tuples of indices and couplings as pairs."""
    keys = {}
    for (coupling, word), value in drift.items():
        assert coupling.kind in ("gradient", "decay")
        pair = "gamma" if coupling.kind == "decay" else (coupling.k, coupling.l)
        keys[pair, bracelet(as_indices(word))] = value
    assert len(keys) == len(drift)
    return keys


@pytest.mark.parametrize("decay", [0, Fraction(1, 3), 0.25, sp.Symbol("gamma", positive=True)])
@pytest.mark.parametrize(
    ("trainable", "degree"),
    [((True, False), 6), ((False, True), 4), ((True, True, False), 4), ((True, False, True), 4)],
)
def test_every_equation_is_equation_11(trainable, degree, decay):
    model = tied_model(trainable, decay)
    h = aim.derive(model, degree)
    assert len({bracelet(as_indices(word)) for word in h.words}) == len(h)
    calls = set()
    for word in h.words:
        expected = equation_11(bracelet(as_indices(word)), trainable, decay != 0)
        assert as_plain(h.drift(word)) == expected
        assert as_plain(word_drift(word, h.views)) == expected
        calls |= {target for _, target in expected if len(target) > degree}
    assert {bracelet(as_indices(word)) for word in h.missing} == calls


def test_number_of_states():
    # theory: bracelets over two letters; half of a degree's teacher-only words are one a degree.
    for degree, count in {2: 5, 4: 15, 6: 36, 8: 84}.items():
        h = aim.derive(tied_model((True, False)), degree)
        assert len(h) == count
        assert int(h.constant.sum()) == degree


def test_the_equation_of_the_structural_overlap():
    """[D] (356): dp_12/dt = -2 g_11 (m112 + 2 t_1 p_12) - 2 g_12 (m122 + t_2 p_12 + t_1 p_22) - (gamma/2) p_12.

    m112 and m122 are traces of traceless parts.
    """
    h = aim.derive(tied_model((True, False), sp.Symbol("gamma")), 2)
    t1, t2 = sp.symbols("t1 t2", real=True)
    traceless = {k: Letter(f"R{k}", symmetric=True) for k in (1, 2)}

    def in_traceless_parts(word):
        expanded = Polynomial({word: 1}).substitute(
            lambda letter: (
                Polynomial.word(traceless[1]) + Polynomial.identity() * t1
                if letter.name == "S1"
                else Polynomial.word(traceless[2]) + Polynomial.identity() * t2
            )
        )
        total = sp.S.Zero
        for term, coefficient in expanded:
            if len(term) == 1:
                continue  # tr of a traceless part
            value = moment_symbol(canonical_trace(term)) if len(term) else sp.S.One
            total += sp.sympify(coefficient) * value
        return total

    symbols = {
        moment_symbol(word): in_traceless_parts(word) for word in [*h.words, *h.missing, *aim.derive(h.model, 3).words]
    }
    S1, S2 = h.views.matrices
    (w1,), (w12,) = (tuple(P.terms) for P in (S1, S1 * S2))
    dt1 = h.equations[canonical_trace(w1)].xreplace(symbols)
    dq12 = h.equations[canonical_trace(w12)].xreplace(symbols)
    R1, R2 = traceless[1], traceless[2]
    p12, p22, m112, m122 = (
        moment_symbol(canonical_trace(Word.of(*letters)))
        for letters in ((R1, R2), (R2, R2), (R1, R1, R2), (R1, R2, R2))
    )
    g11, g12 = Coupling("gradient", 0, 0).symbol, Coupling("gradient", 0, 1).symbol
    gamma = Coupling("decay").symbol
    expected = -2 * g11 * (m112 + 2 * t1 * p12) - 2 * g12 * (m122 + t2 * p12 + t1 * p22) - gamma / 2 * p12
    assert sp.expand(dq12 - t2 * dt1 - expected) == 0


def integrate_zero_closure(h, values):
    """The zero-closed system with constant couplings, integrated exactly word by word from the highest degree down."""
    t = sp.Symbol("t")
    solution = {moment_symbol(word): sp.S.Zero for word in h.missing}
    for word in reversed(h.words):
        right = h.equations[word].xreplace(values)
        assert all(symbol in solution or symbol in values for symbol in right.free_symbols)
        right = right.xreplace(solution)
        start = moment_symbol(word)
        solution[start] = start + sp.integrate(sp.expand(right), (t, 0, t))
    return t, {str(name): sp.expand(value) for name, value in solution.items()}


def symbols_named(*words):
    return [moment_symbol(canonical_trace(Word.of(*(Letter(f"S{k}", symmetric=True) for k in word)))) for word in words]


def test_exactly_solvable_truncations():
    """[D] D.3, (340)-(341): Phi = 2 q11 + 2 q22 - 4 q12 has the constant gradients g_11 = 2, g_12 = -2."""
    couplings = {Coupling("gradient", 0, 0).symbol: sp.Integer(2), Coupling("gradient", 0, 1).symbol: sp.Integer(-2)}
    model = aim.models.load("exact-linear")
    m1, q11, q12, m111, m112, m122 = symbols_named([1], [1, 1], [1, 2], [1, 1, 1], [1, 1, 2], [1, 2, 2])
    t, second = integrate_zero_closure(aim.derive(model, 2), couplings)
    assert second[str(m1)] == sp.expand(m1 - 4 * t * (q11 - q12))
    assert second[str(q11)] == q11
    assert second[str(q12)] == q12
    t, third = integrate_zero_closure(aim.derive(model, 3), couplings)
    assert third[str(m1)] == sp.expand(m1 - 4 * t * (q11 - q12) + 8 * t**2 * (2 * m111 - 3 * m112 + m122))
    assert third[str(q11)] == sp.expand(q11 - 8 * t * (m111 - m112))
    assert third[str(q12)] == sp.expand(q12 - 4 * t * (m112 - m122))


def test_weight_decay_alone_shrinks_every_trained_letter_by_half_gamma():
    # S_k decays as exp(-gamma t / 2), so a word with n trained letters as exp(-n gamma t / 2).
    h = aim.derive(tied_model((True, True, False), 1), 3)
    gamma = Coupling("decay")
    for word in h.words:
        trained = sum(index != 2 for index in as_indices(word))
        assert h.drift(word).get((gamma, word), 0) == Fraction(-trained, 2)
