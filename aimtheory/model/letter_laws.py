"""The laws of single parameter letters: what each factor of S_k is made of at time zero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from aimtheory.errors import InputError
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra import SpectralLaw


@dataclass(frozen=True, init=False)
class LetterLaws:
    """Independent laws of the parameter letters of a factorization of your own.

    ``laws[name]`` is a number s, for independent Gaussian entries of variance s/d, or a spectral law for a d x d
    letter; ``widths[space]`` is dim(space)/d for every inner space. ``mean`` is the limit of Tr S/sqrt(d) at time
    zero, for forms with a mean.

    >>> LetterLaws({"S0": 1, "U1": 1, "V1": "1/2"}, {"r1": "1/4"}).widths["r1"]
    Fraction(1, 4)
    """

    laws: Mapping[str, Scalar | SpectralLaw]
    widths: Mapping[str, Scalar]
    mean: Scalar

    def __init__(
        self, laws: Mapping[str, object], widths: Mapping[str, object] | None = None, mean: object = 0
    ) -> None:
        if not laws:
            raise InputError("LetterLaws needs the law of at least one letter")
        read: dict[str, Scalar | SpectralLaw] = {}
        for name, law in laws.items():
            if isinstance(law, SpectralLaw):
                read[name] = law
            else:
                value = to_scalar(law, f"variance of {name}")
                if isinstance(value, Fraction | float) and value < 0:
                    raise InputError(f"variance of {name} = {value} must be at least 0")
                read[name] = value
        sizes = {space: to_scalar(width, f"width of {space}") for space, width in (widths or {}).items()}
        for space, width in sizes.items():
            if isinstance(width, Fraction | float) and width <= 0:
                raise InputError(f"width of {space} = {width} must be positive")
        object.__setattr__(self, "laws", MappingProxyType(read))
        object.__setattr__(self, "widths", MappingProxyType(sizes))
        object.__setattr__(self, "mean", to_scalar(mean, "mean"))

    def __hash__(self) -> int:
        return hash((tuple(self.laws), tuple(self.widths.items()), self.mean))

    def dimension(self, space: str, dim: int) -> int:
        """round(width x dim) of a space, the embedding space having width one; ``InputError`` when unknown or zero."""
        if space == "d":
            return dim
        if space not in self.widths:
            raise InputError(
                f"the width of the space {space!r} is not given; widths are {', '.join(self.widths) or 'empty'}"
            )
        size = round(float(self.widths[space]) * dim)
        if size < 1:
            raise InputError(f"width of {space} = {self.widths[space]} leaves no column at dim = {dim}; raise dim")
        return size

    def sample(self, name: str, rows: str, columns: str, dim: int, rng: np.random.Generator) -> np.ndarray:
        """A matrix of the letter at dimension ``dim``, float64 of shape (rows, columns)."""
        if name not in self.laws:
            raise InputError(f"no law is given for the letter {name}; laws are given for {', '.join(self.laws)}")
        law = self.laws[name]
        if isinstance(law, SpectralLaw):
            return law.sample(self.dimension(rows, dim), rng)
        shape = (self.dimension(rows, dim), self.dimension(columns, dim))
        return rng.standard_normal(shape) * math.sqrt(float(law) / dim)

    def __repr__(self) -> str:
        widths = f", widths={dict(self.widths)!r}" if self.widths else ""
        return f"LetterLaws({dict(self.laws)!r}{widths})"


__all__ = ["LetterLaws"]
