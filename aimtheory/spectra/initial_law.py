"""Laws at time zero: what a law of an attention matrix, and a law of one parameter, can be asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.files import named_subclasses
from aimtheory.scalars import Scalar

if TYPE_CHECKING:
    from aimtheory.spectra.law import SpectralLaw

FloatArray = NDArray[np.float64]


class MatrixLaw(ABC):
    """The law of an attention matrix S at time zero: what a model asks of ``student=`` and ``teacher=``.

    A law answers for itself: which factors it has (:meth:`factor`, :meth:`factor_pair`), whether it is its own
    transpose (:attr:`is_self_adjoint`), and how a file holds it (:meth:`to_mapping`). A new law is one subclass with a
    ``law_name``; nothing else lists it.
    """

    law_name: ClassVar[str]
    """The name of the law in files."""

    is_self_adjoint: ClassVar[bool] = False

    def factor(self) -> InitialLaw | None:
        """The law of a W with W W^T of this law, None when there is none (the law reaches below zero)."""
        return None

    def factor_pair(self) -> tuple[InitialLaw, InitialLaw] | None:
        """The laws of independent U and V with U V^T of this law, None when it is not such a product."""
        return None

    def check_extensive_rank(self) -> None:
        """Raise ``AssumptionError`` when matrices of this law are close to finite rank (Assumption 1.1 of [D])."""
        return

    def to_mapping(self) -> dict[str, Any]:
        """The law as plain data: its ``law_name`` under ``law``, and its parameters."""
        return {"law": self.law_name} | {key: plain(getattr(self, key)) for key in self.mapping_keys()}

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """The law of plain data without the key ``law``; the keys are those of :meth:`mapping_keys`."""
        return cls(**data)

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """The keys of the law's parameters in plain data: its public fields."""
        return tuple(f.name for f in fields(cls) if not f.name.startswith("_"))  # type: ignore[arg-type]


class InitialLaw(MatrixLaw):
    """The law of one parameter matrix at time zero, orthogonally invariant and independent of all others.

    Beside what every law answers: how to draw it (:meth:`draw`), what it is in free probability (:meth:`free_letter`,
    :meth:`gram`), how wide it is (:attr:`column_width`), and what mean it gives a form (:attr:`scaled_trace`).
    """

    @property
    def column_width(self) -> Scalar | None:
        """lim (columns)/d for a letter out of an inner space; None for a square matrix."""
        return None

    def columns(self, dim: int) -> int | None:  # noqa: ARG002
        """The number of columns at embedding dimension ``dim``; None when a square law, or the draw, decides."""
        return None

    @abstractmethod
    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:
        """A (rows, columns) float64 matrix at embedding dimension ``dim``; ``columns`` None leaves them to the law."""

    @abstractmethod
    def free_letter(self) -> Scalar | SpectralLaw:
        """The letter in free probability: s for independent Gaussian entries of variance s/d, or its spectral law.

        Raises ``InputError`` for a law from which no moments of words follow.
        """

    def gram(self) -> SpectralLaw | None:
        """The spectral law of X X^T for X out of an inner space, None when it is not known."""
        return None

    @property
    def scaled_trace(self) -> Scalar | None:
        """``lim Tr X / sqrt d`` of a square X, the mean of the uncentred form; None when it diverges."""
        return Fraction(0)


def law_types() -> dict[str, type[MatrixLaw]]:
    """Every law that a file may name, by name."""
    return named_subclasses(MatrixLaw, "law_name")


def plain(value: Any) -> Any:
    """A value as plain data: exact rationals as integers or text such as "1/2", arrays and sequences as lists."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, MatrixLaw):
        return value.to_mapping()
    if isinstance(value, np.ndarray | tuple | list):
        return [plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, sp.Basic):
        if value.free_symbols:
            names = ", ".join(sorted(map(str, value.free_symbols)))
            raise InputError(f"{value} has the free symbol {names}; a file holds numbers only: substitute one")
        return str(value)
    return value


__all__ = ["InitialLaw", "MatrixLaw", "law_types", "plain"]
