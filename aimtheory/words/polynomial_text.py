"""Noncommutative polynomials as text: ``"S0 + 1/2 U V^T"``, read by splitting alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction

from aimtheory.errors import InputError
from aimtheory.scalars import to_scalar
from aimtheory.words.letters import Letter
from aimtheory.words.polynomial import Polynomial
from aimtheory.words.word import Word, parse_word

_SIGN = re.compile(r"(?<![0-9.][eE])\s*([+-])\s*")
_NUMBER = re.compile(r"\d+(/\d+)?|(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


def parse_polynomial(text: str, letters: Iterable[Letter]) -> Polynomial:
    """Read a polynomial over the given letters: terms joined by + and -, factors by spaces or ``*``, ``^T`` transposed.

    A term may begin with a number, exact when rational (``1/2``), and ``1`` alone is the identity of the embedding
    space. Text is split and looked up, never evaluated.

    >>> W, V = Letter("W", "d", "r"), Letter("V")
    >>> str(parse_polynomial("V - 1/2 W W^T", [W, V]))
    'V - 1/2*W W^T'

    Raises ``InputError`` for an unknown letter, an empty term, or products and sums whose shapes do not fit.
    """
    if not isinstance(text, str):
        raise InputError(f"polynomial {text!r} is not text; write a polynomial such as 'W1 W1^T'")
    known = tuple(letters)
    pieces = _SIGN.split(text.strip())
    if pieces and not pieces[0].strip():
        pieces = pieces[1:] if len(pieces) > 1 else pieces
    else:
        pieces = ["+", *pieces]
    if len(pieces) % 2 or not any(piece.strip() for piece in pieces[1::2]):
        raise InputError(f"polynomial {text!r} is empty; write one such as 'W1 W1^T' or 'S0 + U1 V1^T'")
    total: Polynomial | None = None
    for sign, body in zip(pieces[::2], pieces[1::2], strict=True):
        factors = body.replace("*", " ").split()
        if not factors:
            raise InputError(f"polynomial {text!r} has an empty term after {sign!r}")
        coefficient = Fraction(-1 if sign == "-" else 1)
        number = factors[0] if _NUMBER.fullmatch(factors[0]) else None
        scale = to_scalar(number, f"coefficient in {text!r}") if number is not None else Fraction(1)
        names = factors[1:] if number is not None else factors
        word = parse_word(" ".join(names), known) if names not in ([], ["1"]) else Word(())
        term = Polynomial({word: 1}) * scale * coefficient
        total = term if total is None else total + term
    assert total is not None  # an empty text was refused above
    return total


__all__ = ["parse_polynomial"]
