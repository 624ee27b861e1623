"""Records of the laws: exact parameters, whatever numbers they are."""

from __future__ import annotations

from aimtheory.records import record
from aimtheory.spectra.atomic import Atomic
from aimtheory.spectra.constant import Constant
from aimtheory.spectra.empirical import Empirical
from aimtheory.spectra.gaussian_factors import GaussianFactors, Ginibre
from aimtheory.spectra.semicircle import GOE
from aimtheory.spectra.square_root import SquareRoot
from aimtheory.spectra.wishart import GaussianEntries, Wishart

LAWS = (Atomic, Constant, Empirical, GOE, GaussianEntries, GaussianFactors, Ginibre, SquareRoot, Wishart)
"""Laws that are built from their public fields."""

for _law in LAWS:
    record(f"law-{_law.law_name.replace('_', '-')}")(_law)

__all__ = ["LAWS"]
