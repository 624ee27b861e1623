"""Forms and traces: the two ways in which a loss reads the parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.words import EMBEDDING, SCALARS, Letter, Polynomial, parse_polynomial

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TAKEN = re.compile(r"loss|time|[tm]_\d+|[pq][12]?_\d+")
"""Names of the observables that every model has."""


def _resolve(polynomial: Polynomial | str, letters: Iterable[Letter], what: str) -> Polynomial:
    """The polynomial over the letters; a float coefficient is the binary number that it is, as a rational."""
    if not isinstance(polynomial, Polynomial):
        try:
            polynomial = parse_polynomial(polynomial, letters)
        except InputError as error:
            raise InputError(f"{what}: {error}") from None
    return polynomial.map_coefficients(lambda c: Fraction(c) if isinstance(c, float) else c)


@dataclass(frozen=True)
class Form:
    """An attention matrix S_k and its quadratic forms x_i^T S_k x_j / sqrt(d), Gaussian in the limit ([D] Theorem 1).

    ``polynomial`` is a noncommutative polynomial of the parameters that maps the embedding space to itself, as text or
    as a ``Polynomial``. ``mean`` is added to the limit of Tr S_k/sqrt(d) at time zero, which the laws give. The loss is
    not differentiated through a ``detached`` form (a teacher made of the student's own letters, say).

    >>> Form("S1", "W1 W1^T").resolved([Letter("W1", "d", "r1")]).polynomial.is_symmetric
    True
    """

    name: str
    polynomial: Polynomial | str
    mean: Scalar = Fraction(0)
    detached: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", to_scalar(self.mean, f"mean of {self.name}"))
        if not isinstance(self.detached, bool):
            raise InputError(f"detached = {self.detached!r} of form {self.name} must be True or False")

    def resolved(self, letters: Iterable[Letter]) -> Form:
        """The form with its polynomial read over the given letters, and checked."""
        S = _resolve(self.polynomial, letters, f"form {self.name}")
        if (S.rows, S.columns) != (EMBEDDING, EMBEDDING):
            raise InputError(
                f"attention matrix {self.name} = {S} is {S.rows} x {S.columns}; it must map the embedding space "
                f"{EMBEDDING!r} to itself"
            )
        if not S.terms:
            raise InputError(f"attention matrix {self.name} is zero; give it at least one term")
        return replace(self, polynomial=S)

    @property
    def matrix(self) -> Polynomial:
        """S_k as a polynomial; ``InputError`` before the form belongs to a model."""
        if isinstance(self.polynomial, str):
            raise InputError(
                f"form {self.name} = {self.polynomial!r} has no letters yet: put it into an AttentionModel"
            )
        return self.polynomial

    @property
    def is_symmetric(self) -> bool:
        """True when S_k = S_k^T identically, as for tied attention."""
        return self.matrix.is_symmetric

    @property
    def is_square(self) -> bool:
        """True when S_k = X X^T, as for tied attention, whose flow is written in the time t = 4 n alpha_d/d."""
        ((word, coefficient), *others) = tuple(self.matrix)
        return not others and coefficient == 1 and len(word) == 2 and word == word.T

    @property
    def parameterization(self) -> str:
        """What S_k is: ``tied`` X X^T, ``untied`` X Y^T of two factors, ``direct`` a letter, or ``other``."""
        ((word, coefficient), *others) = tuple(self.matrix)
        if self.is_square:
            return "tied"
        if others or coefficient != 1 or not 1 <= len(word) <= 2:
            return "other"
        inner = len(word) == 2 and word.letters[0].columns != EMBEDDING
        return "direct" if len(word) == 1 else "untied" if inner else "other"


@dataclass(frozen=True)
class Trace:
    """An order parameter that the loss reads explicitly: R = tr P for a closed polynomial P, Tr P/d, or P of scalars.

    >>> Trace("R_12", "V1^T V2").resolved([Letter("V1"), Letter("V2")]).matrix
    Polynomial(V1^T V2: d x d)
    """

    name: str
    polynomial: Polynomial | str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or _TAKEN.fullmatch(self.name):
            raise InputError(
                f"a trace cannot be called {self.name!r}: its name is a letter followed by letters, digits or "
                "underscores, and not that of another observable (loss, time, t_1, m_1, q_12, q1_12, q2_12, p_12); "
                "call it R_12, say"
            )

    def resolved(self, letters: Iterable[Letter]) -> Trace:
        """The trace with its polynomial read over the given letters, and checked."""
        P = _resolve(self.polynomial, letters, f"trace {self.name}")
        if P.rows != P.columns:
            raise InputError(
                f"trace {self.name} = tr({P}): {P} is {P.rows} x {P.columns} and has no trace; its words must be closed"
            )
        if P.rows not in (EMBEDDING, SCALARS) and any(not len(word) for word, _ in P):
            raise InputError(
                f"trace {self.name} = tr({P}) adds the identity of the inner space {P.rows!r}; leave it out"
            )
        if not any(len(word) for word, _ in P):
            raise InputError(f"trace {self.name} = tr({P}) is a constant; write it into the loss as a number")
        return replace(self, polynomial=P)

    @property
    def matrix(self) -> Polynomial:
        """P as a polynomial; ``InputError`` before the trace belongs to a model."""
        if isinstance(self.polynomial, str):
            raise InputError(
                f"trace {self.name} = {self.polynomial!r} has no letters yet: put it into an AttentionModel"
            )
        return self.polynomial

    @property
    def is_scalar(self) -> bool:
        """True when the trace is one of numbers, which is not divided by d."""
        return self.matrix.rows == SCALARS


__all__ = ["Form", "Trace"]
