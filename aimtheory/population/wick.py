"""Trace order parameters out of Wick contractions: moments and joint cumulants of quadratic forms, as traces of words.

A form is G = x_iᵀ S x_j/√d, with Gaussian tokens E x_ia x_jb = C_ij δ_ab; the matrix S may differ from form to form
(by token pair and by index) and need not be symmetric. Contracting the 2m vectors of m forms in pairs joins the forms
into closed loops; a loop is Tr of the word of their matrices, transposed where the loop runs through a form from right
to left, times one C_ij for each contraction. Connected pairings are single loops, hence

    κ(G_1, …, G_m) = d^{1−m/2} Σ_{connected pairings} Π C · tr(word),    tr = Tr/d,

and m = 1, 2 is equation (4) of [D]. The powers of d are part of the result: cumulants with m ≥ 3 vanish as d → ∞.
Nothing is typed in: the traces come out of the enumeration. Exact at every d.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.words import Letter, Word, canonical_trace

_MOST_FORMS = 7


@dataclass(frozen=True)
class QuadraticForm:
    """x_iᵀ S x_j/√d, or (x_iᵀ S x_j − C_ij Tr S)/√d when ``centred``; tokens count from 0."""

    row: int
    column: int
    matrix: Letter
    centred: bool = False

    def __post_init__(self) -> None:
        if self.matrix.rows != self.matrix.columns:
            raise InputError(
                f"the matrix {self.matrix} of a form maps {self.matrix.columns!r} to {self.matrix.rows!r}; it must act "
                "on the embedding space"
            )
        if self.row < 0 or self.column < 0:
            raise InputError(f"token pair ({self.row}, {self.column}): tokens count from 0")


@dataclass(frozen=True)
class TraceTerm:
    """coefficient · d^power · Π_words tr(word), the coefficient a product of token covariances C_ij."""

    coefficient: sp.Expr
    words: tuple[Word, ...]
    power: sp.Rational


@dataclass(frozen=True)
class TraceExpansion:
    """A sum of :class:`TraceTerm`, in canonical order, words canonical up to rotation and transposition."""

    terms: tuple[TraceTerm, ...]

    def evaluate(self, matrices: Mapping[str, np.ndarray], token_covariance: np.ndarray) -> float:
        """The number for given d×d matrices (by letter name) and C: exact at that d."""
        dim = next(iter(matrices.values())).shape[0]
        total = 0.0
        for term in self.terms:
            table = {symbol: token_covariance[_tokens_of(symbol)] for symbol in term.coefficient.free_symbols}
            value = float(term.coefficient.subs(table)) * dim ** float(term.power)
            for word in term.words:
                product = np.eye(dim)
                for letter in word:
                    matrix = matrices[letter.name]
                    product = product @ (matrix.T if letter.transposed else matrix)
                value *= float(np.trace(product)) / dim
            total += value
        return total

    @property
    def power(self) -> sp.Rational | None:
        """The largest power of d, None for an empty sum."""
        return max((term.power for term in self.terms), default=None)

    def latex(self) -> str:
        """LaTeX with τ for the normalized trace Tr/d."""
        parts = []
        for term in self.terms:
            scale = "" if term.power == 0 else f"d^{{{sp.latex(term.power)}}} "
            coefficient = "" if term.coefficient == 1 else sp.latex(term.coefficient) + r"\,"
            traces = " ".join(rf"\tau({word.latex})" for word in term.words)
            parts.append(f"{coefficient}{scale}{traces}")
        return " + ".join(parts) or "0"

    def __str__(self) -> str:
        parts = []
        for term in self.terms:
            factors = [] if term.coefficient == 1 else [str(term.coefficient)]
            factors += [] if term.power == 0 else [f"d**({term.power})"]
            factors += [f"tr({word})" for word in term.words]
            parts.append("*".join(factors) or "1")
        return " + ".join(parts) or "0"


def covariance_symbol(i: int, j: int) -> sp.Symbol:
    """The symbol C_ij = C_ji, named from 1.

    >>> covariance_symbol(1, 0)
    C_12
    """
    separator = "," if max(i, j) >= 9 else ""
    return sp.Symbol(f"C_{min(i, j) + 1}{separator}{max(i, j) + 1}", real=True)


def _tokens_of(symbol: sp.Symbol) -> tuple[int, int]:
    body = symbol.name[2:]
    first, second = body.split(",") if "," in body else (body[0], body[1])
    return int(first) - 1, int(second) - 1


def moment(forms: Sequence[QuadraticForm]) -> TraceExpansion:
    """E Π G over the forms: all pairings; centring removes the contractions of a form with itself.

    >>> S = Letter("S1")
    >>> str(moment([QuadraticForm(0, 1, S)]))
    'C_12*d**(1/2)*tr(S1)'
    """
    return _contract(forms, connected=False)


def joint_cumulant(forms: Sequence[QuadraticForm]) -> TraceExpansion:
    """κ(G_1, …, G_m): the connected pairings, each a single trace with power d^{1−m/2}.

    >>> S, T = Letter("S1"), Letter("S2")
    >>> str(joint_cumulant([QuadraticForm(0, 1, S), QuadraticForm(2, 3, T)]))
    'C_14*C_23*tr(S1 S2) + C_13*C_24*tr(S1 S2^T)'
    """
    return _contract(forms, connected=True)


def gaussian_limit(forms: Sequence[QuadraticForm]) -> tuple[list[TraceExpansion], list[list[TraceExpansion]]]:
    """Mean and covariance of the forms as traces: the law that Theorem 1 of [D] says they have as d → ∞.

    A mean of an uncentred form carries d^{1/2} tr S = Tr S/√d, the order parameter μ of [D].
    """
    means = [joint_cumulant([form]) for form in forms]
    return means, [[joint_cumulant([a, b]) for b in forms] for a in forms]


def _contract(forms: Sequence[QuadraticForm], connected: bool) -> TraceExpansion:
    count = len(forms)
    if not 1 <= count <= _MOST_FORMS:
        raise InputError(f"{count} forms; the pairings are enumerated for 1 to {_MOST_FORMS} forms")
    tokens = [token for form in forms for token in (form.row, form.column)]
    collected: dict[tuple[tuple[Word, ...], sp.Rational], sp.Expr] = {}
    for pairing in pairings(tuple(range(2 * count))):
        partner = dict(pairing) | {b: a for a, b in pairing}
        # Legs 2n and 2n+1 are the left and right vectors of form n.
        if any(form.centred and partner[2 * n] == 2 * n + 1 for n, form in enumerate(forms)):
            continue
        loops = _loops(forms, partner)
        if connected and len(loops) > 1:
            continue
        coefficient = sp.Mul(*[covariance_symbol(tokens[a], tokens[b]) for a, b in pairing])
        words = tuple(sorted((canonical_trace(loop) for loop in loops), key=lambda word: word.letters))
        key = words, sp.Integer(len(loops)) - sp.Rational(count, 2)
        collected[key] = collected.get(key, sp.S.Zero) + coefficient
    ordered = sorted(collected.items(), key=lambda item: (-item[0][1], tuple(w.letters for w in item[0][0])))
    return TraceExpansion(tuple(TraceTerm(c, words, power) for (words, power), c in ordered if c != 0))


def pairings(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """All perfect matchings of an even number of items: (2m−1)!! of them.

    >>> len(list(pairings(tuple(range(6)))))
    15
    """
    if not items:
        yield ()
        return
    first, rest = items[0], items[1:]
    for n, second in enumerate(rest):
        for remaining in pairings(rest[:n] + rest[n + 1 :]):
            yield ((first, second), *remaining)


def _loops(forms: Sequence[QuadraticForm], partner: Mapping[int, int]) -> list[Word]:
    unseen = set(range(len(forms)))
    loops = []
    while unseen:
        start = 2 * min(unseen)
        leg, letters = start, []
        while True:
            form, from_right = divmod(leg, 2)
            unseen.discard(form)
            letters.append(forms[form].matrix.T if from_right else forms[form].matrix)
            leg = partner[leg ^ 1]
            if leg == start:
                break
        loops.append(Word(tuple(letters)))
    return loops


__all__ = [
    "QuadraticForm",
    "TraceExpansion",
    "TraceTerm",
    "covariance_symbol",
    "gaussian_limit",
    "joint_cumulant",
    "moment",
    "pairings",
]
