"""The square root of a spectral law: a factor W with W W^T of that law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar
from aimtheory.spectra.initial_law import FloatArray, InitialLaw, law_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aimtheory.spectra.law import SpectralLaw


@dataclass(frozen=True)
class SquareRoot(InitialLaw):
    """W = V sqrt(lambda) over the positive eigenvalues of S, Haar V: ``W W^T`` has the spectral law ``law``.

    The width is the mass of the law away from zero, its rank over d. What the columns are up to a rotation plays no
    part in any trace of S. Raises ``InputError`` when the law reaches below zero.

    >>> from aimtheory.spectra import Atomic
    >>> SquareRoot(Atomic([0, 2], ["1/4", "3/4"])).draw(8, None, 8, np.random.default_rng(0)).shape
    (8, 6)
    """

    law_name: ClassVar[str] = "square_root"

    law: SpectralLaw

    def __post_init__(self) -> None:
        if not self.law.is_positive:
            raise InputError(
                f"{self.law!r} reaches below zero, so that no real W has W W^T of it; use a law on [0, inf)"
            )

    @property
    def column_width(self) -> Scalar:
        """One minus the mass of the atom at zero."""
        return Fraction(1) - sum((Fraction(weight) for x, weight in self.law.atoms if x == 0), Fraction(0))

    def draw(self, rows: int, columns: int | None, dim: int, rng: np.random.Generator) -> FloatArray:  # noqa: ARG002
        """A factor of a (rows, rows) sample; its columns are the positive eigenvalues of that sample."""
        return self.law.sample_factor(rows, rng)

    def free_letter(self) -> float:
        """No moments of words follow from W alone, but those of W W^T do: raises ``InputError``."""
        raise InputError(
            f"W is the square root of {self.law!r}, which is not Gaussian: moments follow for words in W W^T only; use "
            "GaussianEntries, or give matrices: initial={name: matrix}"
        )

    def gram(self) -> SpectralLaw:
        """The law itself."""
        return self.law

    def check_extensive_rank(self) -> None:
        """That of the law."""
        self.law.check_extensive_rank()

    def to_mapping(self) -> dict[str, Any]:
        """The law's own data under ``of``."""
        return {"law": self.law_name, "of": self.law.to_mapping()}

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> SquareRoot:
        """From the data of the law under ``of``."""
        inner = dict(data["of"])
        kind = law_types()[inner.pop("law")]
        return cls(kind.from_mapping(inner))  # type: ignore[arg-type]

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """``of``."""
        return ("of",)


__all__ = ["SquareRoot"]
