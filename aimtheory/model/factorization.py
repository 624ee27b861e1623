"""Factorizations: how an attention matrix S_k is made of the matrices that are trained."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from aimtheory.errors import InputError
from aimtheory.model.letter_laws import LetterLaws
from aimtheory.spectra import GaussianFactors, Ginibre, SpectralLaw
from aimtheory.words import Letter, Polynomial

KINDS = ("tied", "untied", "direct")
"""Built-in parameterizations; any other noncommutative polynomial is given as a ``Factorization``."""

EMBEDDING = "d"
"""Name of the embedding space."""


@dataclass(frozen=True)
class Factorization:
    """S_k as a noncommutative polynomial in its parameter letters, each d x r or d x d.

    ``name`` is the name of S_k in results; ``views`` gives readable names to products that start and end in the
    embedding space, such as A1 for U1 U1^T. Raises ``InputError`` when the polynomial is not square on the embedding
    space.

    >>> tied(0).polynomial
    Polynomial(W1 W1^T: d x d)
    """

    kind: str
    name: str
    polynomial: Polynomial
    views: tuple[tuple[str, Polynomial], ...] = ()

    def __post_init__(self) -> None:
        if (self.polynomial.rows, self.polynomial.columns) != (EMBEDDING, EMBEDDING):
            raise InputError(
                f"attention matrix {self.name} = {self.polynomial} is {self.polynomial.rows} x "
                f"{self.polynomial.columns}; it must map the embedding space {EMBEDDING!r} to itself"
            )
        if not self.polynomial.terms:
            raise InputError(f"attention matrix {self.name} is zero; give it at least one term")

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The parameter letters, untransposed."""
        return self.polynomial.letters

    @property
    def is_symmetric(self) -> bool:
        """True when S_k = S_k^T identically, as for tied attention."""
        return self.polynomial.is_symmetric


def tied(index: int) -> Factorization:
    """S_k = W_k W_k^T ([D] section 3), W_k of shape d x r_k; positive semidefinite and symmetric."""
    k = index + 1
    W = Letter(f"W{k}", EMBEDDING, f"r{k}")
    S = Polynomial.word(W, W.T)
    return Factorization("tied", f"S{k}", S, views=((f"S{k}", S),))


def untied(index: int) -> Factorization:
    """M_k = U_k V_k^T ([D] section 4), U_k and V_k of shape d x r_k, with A_k = U_k U_k^T and B_k = V_k V_k^T."""
    k = index + 1
    U, V = Letter(f"U{k}", EMBEDDING, f"r{k}"), Letter(f"V{k}", EMBEDDING, f"r{k}")
    M, A, B = (Polynomial.word(x, y.T) for x, y in ((U, V), (U, U), (V, V)))
    return Factorization("untied", f"M{k}", M, views=((f"M{k}", M), (f"A{k}", A), (f"B{k}", B)))


def direct(index: int, name: str = "S", symmetric: bool = False) -> Factorization:
    """S_k itself ([D] appendix E), any d x d matrix; ``symmetric`` for a fixed teacher that is its own transpose."""
    k = index + 1
    S = Polynomial.word(Letter(f"{name}{k}", EMBEDDING, EMBEDDING, symmetric=symmetric))
    return Factorization("direct", f"{name}{k}", S, views=((f"{name}{k}", S),))


def factorization(kind: str, index: int) -> Factorization:
    """The built-in factorization of that name; ``InputError`` lists the names that exist."""
    builders = {"tied": tied, "untied": untied, "direct": direct}
    if kind not in builders:
        raise InputError(
            f"unknown parameterization {kind!r}; choose one of {', '.join(KINDS)}, or pass a Factorization with "
            "your own polynomial"
        )
    return builders[kind](index)


def default_centred(kind: str) -> bool:
    """Tied and direct models use centred forms unless told otherwise, untied ones do not."""
    return kind != "untied"


def time_factor(kind: str) -> Fraction:
    """Units of time: t = (steps) x time_factor x learning_rate / d; 4 for tied ([D] section 3.1), 1 otherwise."""
    return Fraction(4) if kind == "tied" else Fraction(1)


def sample_parameters(form: Factorization, law: object, dim: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Matrices of the parameter letters at dimension ``dim``, drawn from the law of the factorization.

    Tied: W from ``law.sample_factor``; untied: (U, V) from ``GaussianFactors``; direct: S from ``law.sample``. Arrays
    are float64 of shape (d, r) or (d, d). Raises ``InputError`` when the law does not fit the parameterization.
    """
    if form.kind == "tied" and isinstance(law, SpectralLaw):
        return {form.letters[0].name: law.sample_factor(dim, rng)}
    if form.kind == "untied" and isinstance(law, GaussianFactors):
        left, right = law.sample_factors(dim, rng)
        return {form.letters[0].name: left, form.letters[1].name: right}
    if form.kind == "direct" and isinstance(law, SpectralLaw | Ginibre):
        return {form.letters[0].name: law.sample(dim, rng)}
    if isinstance(law, LetterLaws):
        return {x.name: law.sample(x.name, x.rows, x.columns, dim, rng) for x in form.letters}
    raise InputError(
        f"law {law!r} does not fit the {form.kind} parameterization of {form.name}; tied takes a spectral law such as "
        "Wishart, untied takes GaussianFactors, direct takes a spectral law or Ginibre, and any takes LetterLaws"
    )


__all__ = [
    "EMBEDDING",
    "KINDS",
    "Factorization",
    "default_centred",
    "direct",
    "factorization",
    "sample_parameters",
    "tied",
    "time_factor",
    "untied",
]
