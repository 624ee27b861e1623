"""Typed letters: the matrices that words are made of, as arrows between spaces."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from aimtheory.errors import InputError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

EMBEDDING = "d"
"""Name of the embedding space, whose dimension d tends to infinity."""

SCALARS = "1"
"""Name of the space of dimension one: a letter on it is a number, and a trace on it is not divided by d."""


@dataclass(frozen=True, order=True)
class Letter:
    """A matrix symbol ``X`` of shape ``rows x columns``, where rows and columns are names of spaces.

    The embedding space is called ``"d"``; the inner space of a factor W_k is, say, ``"r1"``. Two letters may stand next
    to each other in a word when the columns of the first are the rows of the second. ``X.T`` is the same matrix
    transposed; a symmetric letter is its own transpose.

    >>> W = Letter("W1", "d", "r1")
    >>> W.T.rows, W.T.columns, W.T.T == W, str(W.T)
    ('r1', 'd', True, 'W1^T')

    Raises ``InputError`` for an empty or odd name and for a symmetric letter between different spaces.
    """

    name: str
    rows: str = "d"
    columns: str = "d"
    symmetric: bool = False
    transposed: bool = False

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"letter name {self.name!r} must be a letter followed by letters, digits or underscores")
        if self.symmetric and self.rows != self.columns:
            raise InputError(
                f"letter {self.name} is declared symmetric but maps {self.columns!r} to {self.rows!r}; "
                "a symmetric letter needs rows == columns"
            )
        if self.symmetric and self.transposed:
            raise InputError(f"letter {self.name} is symmetric: it has no transposed form of its own")
        if (self.rows == SCALARS) != (self.columns == SCALARS):
            raise InputError(
                f"letter {self.name} is {self.rows} x {self.columns}: a vector has rank one, and attention matrices of "
                "finite rank are outside the theory; a number is '1' x '1'"
            )

    @property
    def T(self) -> Letter:
        """The transposed letter; the letter itself when it is symmetric."""
        if self.symmetric:
            return self
        return replace(self, rows=self.columns, columns=self.rows, transposed=not self.transposed)

    @property
    def is_scalar(self) -> bool:
        """True for a number, a letter of shape 1 x 1."""
        return self.rows == SCALARS

    @property
    def base(self) -> Letter:
        """The letter without transposition."""
        return self.T if self.transposed else self

    def __str__(self) -> str:
        return self.name + ("^T" if self.transposed else "")

    @property
    def latex(self) -> str:
        """LaTeX of the letter: ``W1`` becomes ``W_{1}``, a transpose gets ``^{\\top}``."""
        match = re.fullmatch(r"([A-Za-z]+?)_?(\d+)", self.name)
        body = f"{match[1]}_{{{match[2]}}}" if match else self.name.replace("_", r"\_")
        return body + (r"^{\top}" if self.transposed else "")


__all__ = ["EMBEDDING", "SCALARS", "Letter"]
