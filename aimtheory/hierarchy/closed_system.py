"""What a closure is: a value that turns a model into a finite closed system."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from aimtheory.errors import InputError
from aimtheory.hierarchy.views import Views
from aimtheory.model import AttentionModel
from aimtheory.spectra import DressedSpectrum, JointLaw, SpectralMeasure
from aimtheory.words import Letter, Word

FloatArray = NDArray[np.float64]

NO_TRUNCATION = 1 << 30
"""The degree of a closure that truncates nothing: above that of any word."""


@dataclass(frozen=True)
class ClosureProblem:
    """What a closure starts from: model, views, truncation degree, initial law (None: that of the model)."""

    model: AttentionModel
    views: Views
    degree: int
    initial: JointLaw | Mapping[str, np.ndarray] | None


class ClosedSystem(ABC):
    """A finite state that moves linearly in the couplings and from which moments can be read.

    dy/dt = drift(c, y) with c the couplings, in the order of ``views.couplings``; they are functions of the second
    moments, which ``moments`` reads off the state. ``exact_degree`` is the highest degree whose moments are exact at
    time zero.
    """

    exact_degree: int
    is_exact: bool = False
    """True when nothing was truncated, so that there is no truncation error to estimate."""
    notes: tuple[str, ...] = ()
    """What the user should know of the start, which the status of a trajectory repeats."""

    @property
    @abstractmethod
    def initial(self) -> FloatArray:
        """The state at time zero, a flat float64 array."""

    @abstractmethod
    def drift(self, couplings: FloatArray, state: FloatArray) -> FloatArray:
        """The time derivative of the state."""

    @abstractmethod
    def moments(self, words: Sequence[Word], state: FloatArray) -> FloatArray:
        """Normalized traces of words at a state, shape (len(words),). ``InputError`` for a word that the state does not
        hold."""

    def source(self, words: Sequence[Word], couplings: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Lines of Python that define ``INITIAL``, ``moments(state)`` and ``drift(couplings, state)`` with numpy alone.

        ``moments`` gives the traces of the words, ``couplings`` are identifiers in the order of the views. The module
        begins with ``system_source.PRELUDE``. ``InputError`` for a closure that does not write its equations.
        """
        raise InputError(
            f"{type(self).__name__} does not write its equations as Python source; give it a method source(words, "
            "couplings), or integrate closed.rhs"
        )

    def spectral_measure(self, letter: Letter, state: FloatArray) -> SpectralMeasure:  # noqa: ARG002
        """The spectral measure of a self-adjoint letter at a state, where the closure carries operators."""
        raise InputError(
            f"the {type(self).__name__} state holds moments, not operators, so it has no spectral measure of {letter}; "
            "solve with closure='gns' or closure='matrix'"
        )

    def spectrum(self, letter: Letter, state: FloatArray) -> DressedSpectrum:  # noqa: ARG002
        """The limiting law of a self-adjoint letter at a state, where the closure has it."""
        raise InputError(
            f"the {type(self).__name__} state has no limiting density of {letter}; solve with closure='exact' where it "
            "applies, or smooth the nodes of spectral_measure"
        )

    def spectral_law(self, letter: Letter, state: FloatArray) -> DressedSpectrum | SpectralMeasure:
        """The best that is known of the spectrum: the limiting law where the closure has it, nodes elsewhere."""
        return self.spectral_measure(letter, state)


class Closure(ABC):
    """A way to close the hierarchy, chosen by name or as a value with its own options.

    A closure is one file in ``hierarchy/closures`` with one subclass: it is found by its ``name``, no list to extend.
    """

    name: ClassVar[str]
    needs_degree: ClassVar[bool] = True
    """False where nothing is truncated, so that the degree may be left out."""

    @abstractmethod
    def close(self, problem: ClosureProblem) -> ClosedSystem:
        """The closed system of a model at a truncation degree."""

    def resolve(self, problem: ClosureProblem) -> Closure:  # noqa: ARG002
        """The closure that is used for a problem: itself, unless it chooses among others."""
        return self

    def choice(self, problem: ClosureProblem) -> str | None:  # noqa: ARG002
        """Which closure is used for a problem and why, where the closure chooses among others; None elsewhere."""
        return None

    @property
    def options(self) -> Mapping[str, Any]:
        """The closure's own options, for storage beside a result."""
        return {}

    def second_rule(self) -> Closure | None:
        """The same closure with another quadrature, to compare with for an error estimate; None without quadrature."""
        return None

    def coarser_degree(self, degree: int) -> int | None:
        """The degree to compare with for an error estimate: M - 2, or None when there is no coarser closure."""
        return degree - 2 if degree >= 4 else None


__all__ = ["NO_TRUNCATION", "ClosedSystem", "Closure", "ClosureProblem"]
