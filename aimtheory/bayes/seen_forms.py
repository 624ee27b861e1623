"""The forms that a channel sees, of one attention matrix or of several."""

from __future__ import annotations

from abc import ABC

from aimtheory.bayes.token_pairs import pair_multiplicity
from aimtheory.frozen import Uncached
from aimtheory.spectra.law import FloatArray


class SeenForms(Uncached, ABC):
    """What every channel says of its forms h_ab over the pairs a <= b of T ``tokens``: their number and variances."""

    tokens: int

    @property
    def name(self) -> str:
        """How the channel is called on the command line and in messages."""
        return type(self).__name__

    @property
    def indices(self) -> int:
        """The number of attention matrices that the output depends on."""
        return 1

    @property
    def is_joint(self) -> bool:
        """True when q and V are matrices over several attention matrices (a ``JointChannel``)."""
        return False

    @property
    def is_rectangular(self) -> bool:
        """True for cross-attention, whose matrix has no symmetry."""
        return False

    @property
    def pairs(self) -> int:
        """``P = T(T+1)/2``, the number of independent forms of one matrix."""
        return self.tokens * (self.tokens + 1) // 2

    @property
    def multiplicity(self) -> FloatArray:
        """``D_ab = 1 + delta_ab``, shape (P,)."""
        return pair_multiplicity(self.tokens)


__all__ = ["SeenForms"]
