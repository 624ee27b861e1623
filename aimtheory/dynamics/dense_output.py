"""Dense output: the interpolant of an eighth-order Runge-Kutta solution, as plain arrays that can be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.records import record

FloatArray = NDArray[np.float64]


def nested(x: FloatArray, coefficients: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """x(c_0 + (1-x)(c_1 + x(c_2 + ...))), the interpolant within a step, 0 at x = 0.

    >>> float(nested(np.array(0.5), [1.0, 2.0]))
    1.0
    """
    total = np.zeros(np.broadcast_shapes(np.shape(x), np.shape(coefficients[0])))
    for power in reversed(range(len(coefficients))):
        total += coefficients[power]
        total *= x if power % 2 == 0 else 1 - x
    return total


@record("dense-output")
@dataclass(frozen=True, eq=False)
class DenseOutput(ByValue):
    """Piecewise polynomials of degree 7 between steps.

    ``breakpoints`` has shape (n+1,), ``states`` (n, size), ``coefficients`` (n, 7, size).

    On step i with x = (t - t_i)/h the state is states[i] + x(c_0 + (1-x)(c_1 + x(c_2 + ...))), the form of Hairer,
    Norsett and Wanner's DOP853. Accuracy: seventh order, of the size of the solver's tolerance.
    """

    breakpoints: FloatArray
    states: FloatArray
    coefficients: FloatArray

    def __call__(self, times: ArrayLike) -> FloatArray:
        """States at times inside the range, shape (len(times), size); ``InputError`` outside."""
        points = np.atleast_1d(np.asarray(times, dtype=np.float64))
        low, high = self.breakpoints[0], self.breakpoints[-1]
        if points.size and not (points.min() >= low - 1e-12 and points.max() <= high + 1e-12 * max(1.0, high)):
            raise InputError(f"times from {points.min()} to {points.max()} leave the solved range [{low}, {high}]")
        step = np.clip(np.searchsorted(self.breakpoints, points, side="right") - 1, 0, len(self.states) - 1)
        width = self.breakpoints[step + 1] - self.breakpoints[step]
        x = ((points - self.breakpoints[step]) / width)[:, None]
        return self.states[step] + nested(x, np.moveaxis(self.coefficients[step], 1, 0))


__all__ = ["DenseOutput", "nested"]
