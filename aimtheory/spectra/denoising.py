"""Bayes-optimal denoising of a rotationally invariant matrix: R = S + Z / sqrt(qhat), Z a GOE of unit variance.

Per d and with Delta = 1/qhat, f the density of R's spectrum, h its Hilbert transform:

    denoiser   lambda -> lambda - 2 Delta h(lambda)
    MMSE       = Delta - (4 pi^2/3) Delta^2 int f^3       (lim E ||S - E[S|R]||_F^2 / d)
    I          = (1/2) int int log|x-y| f f + (1/4) log qhat + 1/8     (lim I(S; R) / d^2),     dI/dqhat = MMSE/4.

Source: Bun, Allez, Bouchaud and Potters (2016); Maillard, Krzakala, Mezard and Zdeborova (2022); [B] state evolution.
The MMSE is computed as the integral of the posterior variance, a sum of positive terms, so it keeps its digits both
when qhat -> 0 (where Delta - ... cancels) and when qhat -> infinity.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from aimtheory.arrays import real_array
from aimtheory.errors import AssumptionError, InputError
from aimtheory.spectra.law import FloatArray, SpectralLaw, to_float
from aimtheory.spectra.semicircle_convolution import SemicircleConvolution


def mmse(law: SpectralLaw, qhat: ArrayLike) -> FloatArray:
    """``lim E ||S - E[S | S + Z/sqrt(qhat)]||_F^2 / d``, same shape as ``qhat`` (>= 0; at 0 the prior variance).

    Relative error about 1e-13 (for a UserDensity, of the larger of the MMSE and 1e-2/qhat). Raises ``InputError`` for
    negative or non-finite ``qhat`` and ``AssumptionError`` for a prior without a second moment.

    >>> from aimtheory.spectra import GOE
    >>> round(float(mmse(GOE(1), 3.0)), 12)                 # 1 / (1 + qhat)
    0.25
    """
    precision = check_precision(qhat)
    mean, second = (to_float(value, "moment of the prior") for value in law.moments(2))
    if not np.isfinite(second):
        raise AssumptionError(f"{law!r} has no finite second moment; the MMSE is not defined")
    result = np.full(precision.shape, max(second - mean**2, 0.0))
    active = precision > 0
    result[active] = law.noisy_mmse(precision[active])
    return result


def mutual_information(law: SpectralLaw, qhat: ArrayLike) -> FloatArray:
    """``lim I(S; S + Z/sqrt(qhat)) / d^2``, same shape as ``qhat`` (>= 0); 0 at 0. Absolute error about 1e-14.

    >>> from aimtheory.spectra import GOE
    >>> round(float(mutual_information(GOE(1), 3.0)), 12)   # log(1 + qhat) / 4
    0.34657359028
    """
    precision = check_precision(qhat)
    result = np.zeros(precision.shape)
    active = precision > 0
    result[active] = law.noisy_information(precision[active])
    return result


def denoise(law: SpectralLaw, qhat: float, eigenvalues: ArrayLike) -> FloatArray:
    """``D(lambda) = lambda - 2 Delta h(lambda)`` at any real points, continued analytically off the bands.

    >>> from aimtheory.spectra import GOE
    >>> denoise(GOE(1), 1.0, [1.0])
    array([0.5])
    """
    precision = float(check_precision(qhat))
    if precision == 0:
        return np.full(np.shape(eigenvalues), to_float(law.mean, "mean"))
    return SemicircleConvolution(law, 1 / precision).denoise(eigenvalues)


def denoise_matrix(law: SpectralLaw, qhat: float, observed: ArrayLike) -> FloatArray:
    """``E[S | R]``: the symmetric (d, d) ``observed`` matrix with every eigenvalue denoised."""
    matrix = real_array(observed, "observed", ndim=2)
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the observed matrix must be square; got shape {matrix.shape}")
    eigenvalues, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * denoise(law, qhat, eigenvalues)) @ vectors.T)


def check_precision(qhat: ArrayLike) -> FloatArray:
    """``qhat`` as a float64 array of finite numbers >= 0, else ``InputError``."""
    values = np.array(qhat, dtype=np.float64)
    if not np.all(np.isfinite(values)) or np.any(values < 0):
        bad = values[~(np.isfinite(values) & (values >= 0))].ravel()[0]
        raise InputError(f"qhat = {bad} must be finite and >= 0 (the signal-to-noise ratio of the denoising problem)")
    return values


__all__ = ["denoise", "denoise_matrix", "mmse", "mutual_information"]
