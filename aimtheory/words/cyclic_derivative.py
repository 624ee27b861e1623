"""The cyclic derivative: the gradient of a trace by one of its letters."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from aimtheory.errors import InputError
from aimtheory.words.letters import Letter
from aimtheory.words.polynomial import Polynomial
from aimtheory.words.word import Word


def cyclic_derivative(polynomial: Polynomial, letter: Letter) -> Polynomial:
    r"""The matrix D with d Tr P = Tr(D^T dX) for the letter X: the gradient of the (unnormalized) trace.

    From Tr(u dX v) one reads D = u^T v^T, from Tr(u dX^T v) one reads D = v u. For a symmetric letter D is the gradient
    among symmetric matrices, (D + D^T)/2. Exact. Used for [D] (7): the SGD drift is a cyclic derivative.

    >>> W = Letter("W", "d", "r")
    >>> str(cyclic_derivative(Polynomial.word(W, W.T), W))
    '2*W'

    Raises ``InputError`` when the polynomial is not square, so that it has no trace.
    """
    if polynomial.rows != polynomial.columns:
        raise InputError(f"polynomial {polynomial} is {polynomial.rows} x {polynomial.columns}; a trace needs a square")
    return cotangent_pullback(polynomial, letter, Polynomial.identity(polynomial.rows))


def cotangent_pullback(polynomial: Polynomial, letter: Letter, cotangent: Polynomial) -> Polynomial:
    """The matrix D with Tr(H^T dP) = Tr(D^T dX), H the ``cotangent`` held fixed: backpropagation through P in words.

    An occurrence u X v of the letter gives u^T H v^T, an occurrence u X^T v gives v H^T u. With H = 1 this is the
    cyclic derivative. Symmetric letters are symmetrized as there.
    """
    base = letter.base
    result = Polynomial.zero(base.rows, base.columns)
    for word, coefficient in polynomial:
        for position, occurrence in enumerate(word):
            if occurrence.base != base:
                continue
            before = Word(word.letters[:position], word.rows)
            after = Word(word.letters[position + 1 :], occurrence.columns)
            if occurrence.transposed:
                piece = Polynomial({after: Fraction(1)}) * cotangent.T * Polynomial({before: Fraction(1)})
            else:
                piece = Polynomial({before.T: Fraction(1)}) * cotangent * Polynomial({after.T: Fraction(1)})
            result = result + piece * coefficient
    return (result + result.T) * Fraction(1, 2) if base.symmetric else result


def leibniz(polynomial: Polynomial, drift: Callable[[Letter], Polynomial | None]) -> Polynomial:
    """The derivative of a polynomial along a flow: each letter in turn replaced by its drift; None means constant.

    ``drift`` is asked for untransposed letters; the drift of X^T is the transpose.
    """
    result = Polynomial.zero(polynomial.rows, polynomial.columns)
    for word, coefficient in polynomial:
        for position, letter in enumerate(word):
            change = drift(letter.base)
            if change is None:
                continue
            before = Polynomial({Word(word.letters[:position], word.rows): coefficient})
            after = Polynomial({Word(word.letters[position + 1 :], letter.columns): Fraction(1)})
            result = result + before * (change.T if letter.transposed else change) * after
    return result


__all__ = ["cotangent_pullback", "cyclic_derivative", "leibniz"]
