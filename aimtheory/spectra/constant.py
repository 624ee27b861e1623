"""The law of a trainable scalar: the number from which it starts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra.initial_law import FloatArray, InitialLaw
from aimtheory.spectra.law import to_float


@dataclass(frozen=True)
class Constant(InitialLaw):
    """A 1 x 1 parameter that starts at ``value``.

    >>> Constant("1/2").draw(1, 1, 100, np.random.default_rng(0))
    array([[0.5]])
    """

    law_name: ClassVar[str] = "constant"

    value: Scalar = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", to_scalar(self.value, "value"))

    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """The number, shape (1, 1)."""
        if (rows, columns) != (1, 1):
            raise InputError(f"{self!r} is the law of a 1 x 1 parameter, not of a {rows} x {columns} one")
        return np.full((1, 1), to_float(self.value, "value"))

    def free_letter(self) -> Scalar:
        """A scalar is no letter of free probability: raises ``InputError``."""
        raise InputError(
            f"{self!r} is the law of a number ('1' x '1'); matrices take GaussianEntries, Ginibre, Wishart"
        )


__all__ = ["Constant"]
