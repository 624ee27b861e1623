"""What a value given as a law is, for the rooms that take one."""

from __future__ import annotations

from typing import TypeGuard

from aimtheory.spectra.initial_law import InitialLaw, MatrixLaw
from aimtheory.spectra.joint_law import JointLaw
from aimtheory.spectra.law import SpectralLaw
from aimtheory.spectra.rectangular_law import RectangularLaw


def is_joint_law(value: object) -> TypeGuard[JointLaw]:
    """Whether a value is a joint law of several letters.

    >>> is_joint_law(3)
    False
    """
    return isinstance(value, JointLaw)


def is_matrix_law(value: object) -> TypeGuard[MatrixLaw | RectangularLaw]:
    """True for the law of any matrix.

    >>> from aimtheory.spectra import GOE
    >>> is_matrix_law(GOE(1)), is_matrix_law("goe")
    (True, False)
    """
    return isinstance(value, MatrixLaw | RectangularLaw)


def is_parameter_law(value: object) -> TypeGuard[InitialLaw]:
    """True for a law that one parameter can have: not for those of products.

    >>> from aimtheory.spectra import GaussianFactors, Ginibre
    >>> is_parameter_law(Ginibre(1)), is_parameter_law(GaussianFactors(1))
    (True, False)
    """
    return isinstance(value, InitialLaw)


def is_spectral_law(value: object) -> TypeGuard[SpectralLaw]:
    """True for the law of a self-adjoint matrix by its spectrum.

    >>> from aimtheory.spectra import GOE, Ginibre
    >>> is_spectral_law(GOE(1)), is_spectral_law(Ginibre(1))
    (True, False)
    """
    return isinstance(value, SpectralLaw)


def is_rectangular_law(value: object) -> TypeGuard[RectangularLaw]:
    """True for a law of d x delta d matrices by their singular values.

    >>> from aimtheory.spectra import GOE, RectangularGinibre
    >>> is_rectangular_law(RectangularGinibre(1, 1)), is_rectangular_law(GOE(1))
    (True, False)
    """
    return isinstance(value, RectangularLaw)


__all__ = ["is_joint_law", "is_matrix_law", "is_parameter_law", "is_rectangular_law", "is_spectral_law"]
