"""Records of the laws: exact parameters, whatever numbers they are."""

from __future__ import annotations

from aimtheory.records import record
from aimtheory.spectra.atomic import Atomic
from aimtheory.spectra.empirical import Empirical
from aimtheory.spectra.gaussian_factors import GaussianFactors, Ginibre
from aimtheory.spectra.semicircle import GOE
from aimtheory.spectra.wishart import Wishart

LAWS = {
    "law-wishart": Wishart,
    "law-goe": GOE,
    "law-ginibre": Ginibre,
    "law-gaussian-factors": GaussianFactors,
    "law-atomic": Atomic,
    "law-empirical": Empirical,
}
"""Laws that are built from their public fields, by the kind of their record."""

for _kind, _law in LAWS.items():
    record(_kind)(_law)

__all__ = ["LAWS"]
