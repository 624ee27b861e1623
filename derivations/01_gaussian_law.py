"""1. The Gaussian law of the attention forms (Theorem 1, equation (4) of [D], arXiv:2609.03858).

Result. For Gaussian tokens E x_ia x_jb = C_ij δ_ab the forms G = x_iᵀ S x_j/√d have joint cumulants that are single
traces, of order d^{1−m/2}; so they become Gaussian when S has extensive rank, with

    E G_ijk = C_ij Tr S_k/√d,   Cov(G_ijk, G_i'j'l) = C_ii' C_jj' tr(S_k S_lᵀ) + C_ij' C_ji' tr(S_k S_l).

Two routes meet: the log-MGF −½ log det(1 − 2ΣA) with its cyclic orders, expanded here by hand, and the Wick pairings of
``aimtheory.population``. Run it: it asserts every step and prints LaTeX.
"""

from __future__ import annotations

import itertools
import math

import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.population import QuadraticForm, TraceExpansion, joint_cumulant
from aimtheory.population.wick import covariance_symbol
from aimtheory.words import Letter, Word, canonical_trace

ORDER = 4


def log_mgf_series() -> str:
    """−½ log det(1 − 2sB) = Σ_m s^m (2^{m−1}/m) Tr B^m, checked on a generic 2×2 matrix."""
    s = sp.Symbol("s")
    generic = sp.Matrix(2, 2, sp.symbols("b_11 b_12 b_21 b_22"))
    left = sp.series(-sp.log((sp.eye(2) - 2 * s * generic).det()) / 2, s, 0, ORDER + 1).removeO()
    right = sum(s**m * sp.Rational(2 ** (m - 1), m) * (generic**m).trace() for m in range(1, ORDER + 1))
    check(sp.expand(left - right) == 0, "the log-MGF is the series of traces")
    return (
        r"\log E\,e^{sX^\top A X} = -\tfrac12\log\det(1-2s\Sigma A)"
        r" = \sum_m s^m\,\frac{2^{m-1}}{m}\,\mathrm{Tr}(\Sigma A)^m"
    )


def polarization() -> str:
    """A = Σ_n s_n A_n: the coefficient of s_1…s_m has m!/m = (m−1)! cyclic orders of weight 2^{m−1}."""
    for m in range(1, ORDER + 1):
        letters = range(m)
        words = [word for word in itertools.product(letters, repeat=m) if len(set(word)) == m]
        necklaces = {min(word[n:] + word[:n] for n in range(m)) for word in words}
        # Each cyclic order is met m times among the words, which cancels the 1/m.
        check(len(words) == m * len(necklaces) == math.factorial(m), f"there are {m - 1}! cyclic orders of {m} letters")
    return (
        r"\kappa(G_1,\dots,G_m) = 2^{m-1}\sum_{\text{cyclic orders }\pi}"
        r"\mathrm{Tr}(A_{\pi_1}\Sigma A_{\pi_2}\Sigma\cdots A_{\pi_m}\Sigma)"
    )


def cyclic_cumulant(forms: list[QuadraticForm]) -> dict[Word, sp.Expr]:
    """The cumulant by cyclic orders, times d^{m/2 − 1}: word -> its coefficient in the C_ij.

    A_n = (E_ij ⊗ S + E_ji ⊗ Sᵀ)/(2√d) and Σ = C ⊗ 1, so each factor is met from the left or from the right and
    Tr(∏ E C ⊗ ∏ S) = (∏ C)·d tr(∏ S).
    """
    m = len(forms)
    collected: dict[Word, sp.Expr] = {}
    for order in itertools.permutations(range(1, m)):
        cycle = [forms[0], *[forms[n] for n in order]]
        for sides in itertools.product((False, True), repeat=m):
            ends = [(f.column, f.row) if turned else (f.row, f.column) for f, turned in zip(cycle, sides, strict=True)]
            letters = [f.matrix.T if turned else f.matrix for f, turned in zip(cycle, sides, strict=True)]
            links = [covariance_symbol(ends[n][1], ends[(n + 1) % m][0]) for n in range(m)]
            word = canonical_trace(Word(tuple(letters)))
            weight = sp.Rational(2 ** (m - 1), 2**m)
            collected[word] = collected.get(word, sp.S.Zero) + weight * sp.Mul(*links)
    return {word: sp.expand(value) for word, value in collected.items()}


def agree(forms: list[QuadraticForm]) -> TraceExpansion:
    """Assert that the cyclic orders and the library's Wick pairings give the same traces; return the latter."""
    by_hand = cyclic_cumulant(forms)
    library = joint_cumulant(forms)
    power = 1 - sp.Rational(len(forms), 2)
    check(all(t.power == power and len(t.words) == 1 for t in library.terms), "a cumulant is one trace at d^(1 - m/2)")
    found = {term.words[0]: sp.expand(term.coefficient) for term in library.terms}
    check(found == by_hand, "cyclic orders and Wick pairings give the same traces")
    return library


def derive() -> Derivation:
    """The steps, each asserted."""
    letters = [Letter(f"S{n + 1}") for n in range(ORDER)]
    forms = [QuadraticForm(2 * n, 2 * n + 1, letter) for n, letter in enumerate(letters)]
    expansions = [agree(forms[: n + 1]) for n in range(ORDER)]
    # Shared tokens and shared matrices are the same formula with indices identified.
    agree([QuadraticForm(0, 0, letters[0]), QuadraticForm(0, 1, letters[0]), QuadraticForm(1, 1, letters[1])])

    mean, covariance, third = expansions[0], expansions[1], expansions[2]
    first, second = letters[:2]
    expected = {
        canonical_trace(Word.of(first, second.T)): covariance_symbol(0, 2) * covariance_symbol(1, 3),
        canonical_trace(Word.of(first, second)): covariance_symbol(0, 3) * covariance_symbol(1, 2),
    }
    check({t.words[0]: t.coefficient for t in covariance.terms} == expected, "the covariance is equation (4)")

    symmetric = [Letter(f"S{n + 1}", symmetric=True) for n in range(2)]
    tied = agree([QuadraticForm(2 * n, 2 * n + 1, letter, centred=True) for n, letter in enumerate(symmetric)])
    (term,) = tied.terms
    check(term.words == (canonical_trace(Word.of(*symmetric)),), "symmetric matrices leave one trace")
    centred = QuadraticForm(0, 1, symmetric[0], centred=True)
    check(joint_cumulant([centred]).terms == (), "a centred form has mean zero")

    counts = [
        sum(t.coefficient.subs(dict.fromkeys(t.coefficient.free_symbols, 1)) for t in e.terms) for e in expansions
    ]
    check(counts == [2**n * math.factorial(n) for n in range(ORDER)], "there are 2^(m-1) (m-1)! connected pairings")

    steps = (
        Step(
            "Stack the tokens into $X\\in\\mathbb R^{Ld}$ with covariance $\\Sigma = C\\otimes 1_d$; a form is "
            "$G = X^\\top A X$ with $A$ the symmetric part of $E_{ij}\\otimes S/\\sqrt d$. Its logarithmic moment "
            "generating function is",
            log_mgf_series(),
        ),
        Step("Polarizing, the joint cumulants are sums over cyclic orders:", polarization()),
        Step(
            "Each $A$ is met from the left or from the right, and the trace of a Kronecker product factorizes. With "
            "$\\tau = \\mathrm{Tr}/d$, the mean of a form is",
            rf"E\,G = {mean.latex()}",
        ),
        Step(
            "the covariance of two forms, equation (4), is",
            rf"\mathrm{{Cov}}(x_1^\top S_1x_2,\,x_3^\top S_2x_4)/d = {covariance.latex()}",
        ),
        Step("and the third cumulant already carries a negative power of $d$:", rf"\kappa_3 = {third.latex()}"),
        Step(
            "In general there are $2^{m-1}(m-1)!$ connected pairings, each a single trace of $m$ matrices; with "
            "$|\\tau(S_1\\cdots S_m)|\\le \\|S\\|_{\\mathrm{op}}^{m-2}\\,\\|S\\|_F^2/d$ the forms "
            "become jointly Gaussian when $\\|S\\|_{\\mathrm{op}}/\\|S\\|_F\\to0$:",
            r"|\kappa_m| \le 2^{m-1}(m-1)!\,\max|C_{ij}|^m\, d^{-m/2}\,\|S\|_{\mathrm{op}}^{m-2}\,\|S\|_F^2"
            r"\;\longrightarrow\;0,\qquad m\ge3",
        ),
        Step(
            "For symmetric matrices with centred forms the mean is zero and the two traces are one, the order "
            "parameter $q_{kl}=\\tau(S_kS_l)$:",
            rf"\mathrm{{Cov}} = \left({sp.latex(term.coefficient)}\right)\tau({term.words[0].latex})",
        ),
    )
    return Derivation("The Gaussian law of the attention forms", steps)


if __name__ == "__main__":
    main(derive)
