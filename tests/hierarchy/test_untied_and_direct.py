"""Untied attention against [D] (27)-(32) and direct optimization against Theorem 4, each formula typed in by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

import aimtheory as aim
from aimtheory.hierarchy import Coupling, parameter_flow, views, word_drift
from aimtheory.hierarchy.flow import as_symbolic
from aimtheory.model import direct, tied, untied, written
from aimtheory.model.losses import MeanSquaredError
from aimtheory.words import Letter, Polynomial

GAMMA = ("gamma",)


def moving(attention, moves):
    return replace(attention, parameters=tuple(replace(p, trained=moves) for p in attention.parameters))


def model_of(factorizations, trainable, *, centred, weight_decay=0):
    students = tuple(k for k, moves in enumerate(trainable) if moves)
    teachers = tuple(k for k, moves in enumerate(trainable) if not moves)
    return aim.AttentionModel.of(
        *(moving(form, moves) for form, moves in zip(factorizations, trainable, strict=True)),
        contexts=((1, 1),),
        loss=MeanSquaredError("linear", students=students, teachers=teachers),
        weight_decay=weight_decay,
        centred=centred,
    )


def key_of(coupling):
    return {
        "gradient_transposed": lambda: ("g", 1, *sorted((coupling.k, coupling.l))),
        "gradient_plain": lambda: ("g", 2, *sorted((coupling.k, coupling.l))),
        "bias": lambda: ("beta", coupling.k),
        "decay": lambda: GAMMA,
    }[coupling.kind]()


def as_plain(change):
    """{(coupling key, tuple of letter names): coefficient} of the engine's drift of a letter."""
    result = {}
    for coupling, polynomial in change.items():
        for word, coefficient in polynomial:
            result[key_of(coupling), tuple(map(str, word))] = coefficient
    return result


def power(name, r):
    """M^(1) = M, M^(2) = M^T."""
    return name if r == 1 else f"{name}^T"


def formulas_31_32(k, names, *, decay, bias):
    """The drift of M_k, M_k^T, A_k, B_k, straight from the table."""
    M, A, B = f"M{k + 1}", f"A{k + 1}", f"B{k + 1}"
    Mt = f"{M}^T"
    table = {M: {}, Mt: {}, A: {}, B: {}}

    def add(letter, coupling, word, value):
        table[letter][coupling, word] = table[letter].get((coupling, word), 0) + Fraction(value)

    if bias:
        for letter, words in ((M, (A, B)), (Mt, (A, B)), (A, (M, Mt)), (B, (M, Mt))):
            for word in words:
                add(letter, ("beta", k), (word,), -1)
    for other, name in enumerate(names):
        for r in (1, 2):
            g = ("g", r, *sorted((k, other)))
            same, bar = power(name, r), power(name, 3 - r)
            add(M, g, (same, B), -2)
            add(M, g, (A, same), -2)
            add(Mt, g, (B, bar), -2)
            add(Mt, g, (bar, A), -2)
            add(A, g, (same, Mt), -2)
            add(A, g, (M, bar), -2)
            add(B, g, (bar, M), -2)
            add(B, g, (Mt, same), -2)
    if decay:
        for letter in table:
            add(letter, GAMMA, (letter,), -2)
    return table


CASES = {
    "one student, Ginibre teacher": ((untied(1), direct(2, name="M")), (True, False)),
    "one student, untied teacher": ((untied(1), untied(2)), (True, False)),
    "two students": ((untied(1), untied(2), direct(3, name="M")), (True, True, False)),
}


@pytest.mark.parametrize("decay", [0, Fraction(1, 2), sp.Symbol("gamma")])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_letters_follow_31_and_32(case, centred, decay):
    factorizations, trainable = CASES[case]
    seen = views(model_of(factorizations, trainable, centred=centred, weight_decay=decay))
    names = [attention.form.name for attention in factorizations]
    letters = {str(letter): letter for letter in seen.alphabet.letters}
    moving = set()
    for k, moves in enumerate(trainable):
        if not moves:
            continue
        for letter, expected in formulas_31_32(k, names, decay=decay != 0, bias=not centred).items():
            change = seen.drift[letters[letter.removesuffix("^T")]]
            if letter.endswith("^T"):
                change = {coupling: polynomial.T for coupling, polynomial in change.items()}
            assert as_plain(change) == expected, letter
            moving.add(letter.removesuffix("^T"))
    assert {str(letter) for letter in seen.drift} == moving


def bracelet(word):
    """The least of all rotations of a word and of its transpose, words as tuples of names."""
    flipped = tuple(
        name if name[0] in "AB" else name.removesuffix("^T") if name.endswith("^T") else f"{name}^T"
        for name in reversed(word)
    )
    return min(form[n:] + form[:n] for form in (word, flipped) for n in range(len(word)))


@pytest.mark.parametrize("centred", [True, False])
def test_words_follow_by_replacing_one_letter_at_a_time(centred):
    factorizations, trainable = CASES["one student, Ginibre teacher"]
    h = aim.derive(model_of(factorizations, trainable, centred=centred, weight_decay=1), 3)
    table = formulas_31_32(0, ["M1", "M2"], decay=True, bias=not centred)
    for word in h.words:
        names = tuple(map(str, word))
        expected = {}
        for position, name in enumerate(names):
            for (coupling, replacement), value in table.get(name, {}).items():
                key = coupling, bracelet((*names[:position], *replacement, *names[position + 1 :]))
                expected[key] = expected.get(key, 0) + value
        expected = {key: value for key, value in expected.items() if value}
        for drift in (h.drift(word), word_drift(word, h.views)):
            found = {(key_of(c), bracelet(tuple(map(str, target)))): value for (c, target), value in drift.items()}
            assert found == expected


def test_bias_carries_the_overlap_of_equation_27():
    """d tr(M_k)/dtau = -beta_k (tA + tB) - psi_k - 2 gamma tr M_k with psi_k of (27): zero at the bias of (30)."""
    h = aim.derive(model_of(*CASES["one student, Ginibre teacher"], centred=False, weight_decay=1), 2)
    found = {(key_of(c), bracelet(tuple(map(str, w)))): v for (c, w), v in h.drift("tr(M1)").items()}
    expected = {(("beta", 0), ("A1",)): -1, (("beta", 0), ("B1",)): -1, (GAMMA, ("M1",)): -2}
    for other in (0, 1):
        for r in (1, 2):
            for word in ((power(f"M{other + 1}", r), "B1"), ("A1", power(f"M{other + 1}", r))):
                key = ("g", r, 0, other), bracelet(word)
                expected[key] = expected.get(key, 0) - 2
    assert found == expected


@pytest.mark.parametrize("decay", [0, Fraction(1, 4)])
@pytest.mark.parametrize("trainable", [(True, False), (True, True, False)])
def test_direct_optimization_is_theorem_4(trainable, decay):
    """dS_k/dt = -2 sum_m (g1_km S_m + g2_km S_m^T) - gamma S_k, and so (402)-(404) for t_k, q1 and q2."""
    seen = views(model_of([direct(k + 1) for k in range(len(trainable))], trainable, centred=True, weight_decay=decay))
    letters = {str(letter): letter for letter in seen.alphabet.letters}
    for k, moves in enumerate(trainable):
        if not moves:
            assert letters[f"S{k + 1}"] not in seen.drift
            continue
        expected = {
            (("g", r, *sorted((k, m))), (power(f"S{m + 1}", r),)): -2 for m in range(len(trainable)) for r in (1, 2)
        }
        if decay:
            expected[GAMMA, (f"S{k + 1}",)] = -1
        assert as_plain(seen.drift[letters[f"S{k + 1}"]]) == expected


def test_direct_optimization_closes_on_second_moments():
    """Theorem 4: the degree of a word never grows, so that no closure is needed: (402)-(404)."""
    h = aim.derive(model_of([direct(1), direct(2)], (True, False), centred=True), 2)
    assert h.missing == ()
    assert "closed" in h.report()
    o11, o12, p11, p12 = (h.views.parse(f"tr({w})") for w in ("S1 S1^T", "S1 S2^T", "S1 S1", "S1 S2"))
    mu = {name: sp.Symbol(f"tr({word})", real=True) for name, word in
          {"o11": o11, "o12": o12, "p11": p11, "p12": p12}.items()}  # fmt: skip
    o22, p22 = (sp.Symbol(f"tr({h.views.parse(f'tr({w})')})", real=True) for w in ("S2 S2^T", "S2 S2"))
    g1 = {(k, l): Coupling("gradient_transposed", k, l).symbol for k, l in ((0, 0), (0, 1))}
    g2 = {(k, l): Coupling("gradient_plain", k, l).symbol for k, l in ((0, 0), (0, 1))}
    cross = -2 * (g1[0, 0] * mu["o12"] + g2[0, 0] * mu["p12"] + g1[0, 1] * o22 + g2[0, 1] * p22)
    assert sp.expand(h.equations[o12] - cross) == 0
    own = -4 * (g1[0, 0] * mu["o11"] + g2[0, 0] * mu["p11"] + g1[0, 1] * mu["o12"] + g2[0, 1] * mu["p12"])
    assert sp.expand(h.equations[o11] - own) == 0


def test_two_equal_factors_reduce_untied_to_tied():
    """Chain rule: at U = V = W the gradient by W is that by U plus that by V, and tied time runs 4 units a slow unit.

    So dU/dtau + dV/dtau = 4 dW/dt for the gradient terms, g_kl = g1_kl + g2_kl; weight decay acts once on W and once
    on each of U and V, so that there the sum is twice as much.
    """
    loose = parameter_flow(model_of([untied(1), untied(2)], (True, False), centred=True, weight_decay=1))
    bound = parameter_flow(model_of([tied(1), tied(2)], (True, False), centred=True, weight_decay=1))
    W = {k: Letter(f"W{k}", "d", f"r{k}") for k in (1, 2)}
    U1, V1 = Letter("U1", "d", "r1"), Letter("V1", "d", "r1")

    def equal_factors(letter):
        return Polynomial.word(W[int(letter.name[1])])

    def symbolic(flow, letter):
        return as_symbolic(flow.drift[letter], "d", letter.columns)

    total = symbolic(loose, U1).substitute(equal_factors) + symbolic(loose, V1).substitute(equal_factors)
    gamma = Coupling("decay").symbol
    names = {Coupling("gradient_transposed", 0, l).symbol: Coupling("gradient", 0, l).symbol
             - Coupling("gradient_plain", 0, l).symbol for l in (0, 1)}  # fmt: skip
    total = total.map_coefficients(lambda c: sp.expand(sp.sympify(c).xreplace(names)))
    single = symbolic(bound, W[1]) * 4
    assert total.map_coefficients(lambda c: sp.sympify(c).subs(gamma, 0)) == single.map_coefficients(
        lambda c: sp.sympify(c).subs(gamma, 0)
    )
    assert total + Polynomial.word(W[1]) * gamma == single


def test_symmetric_factorizations_use_the_tied_gradient_alone():
    form = written("S1", Polynomial.word(Letter("S1", symmetric=True)))
    seen = views(model_of([form, tied(2)], (True, False), centred=True))
    assert {coupling.kind for coupling in seen.couplings} == {"gradient"}
    mixed = views(model_of([tied(1), direct(2)], (True, False), centred=True))
    assert {coupling.kind for coupling in mixed.couplings} == {"gradient_transposed", "gradient_plain"}
