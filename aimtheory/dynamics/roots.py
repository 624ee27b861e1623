"""All crossings of a level within one step of an integration, by root isolation on its dense output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import brentq

_POINTS = chebyshev.chebpts2(9)
"""Where a step is looked at; between them its interpolant of degree 8 stands for the smooth function."""


def roots_in_step(
    gap: Callable[[float], float], left: float, right: float, at_left: float, at_right: float, *, tolerance: float
) -> list[tuple[float, int]]:
    """(time, direction) of every root of a smooth ``gap`` in (left, right], in order.

    The direction is 1 where the gap rises through 0, -1 where it falls, and 0 where it only touches 0: an extremum
    within ``tolerance`` of it. Extrema of the interpolant cut the step into monotone parts, of one root at most, which
    are refined on the gap itself. ``at_left`` and ``at_right`` are its values at the ends: a root at the right end
    belongs to this step, one at the left end to the step before. A gap that is within tolerance everywhere has no
    roots: the level is stayed at, not crossed.

    >>> import math
    >>> found = roots_in_step(math.sin, 1.0, 7.0, math.sin(1.0), math.sin(7.0), tolerance=1e-9)
    >>> [(round(t, 6), direction) for t, direction in found]
    [(3.141593, -1), (6.283185, 1)]
    """
    middle, half = (left + right) / 2, (right - left) / 2
    inner = [gap(middle + half * x) for x in _POINTS[1:-1]]
    values = np.array([at_left, *inner, at_right])
    if not np.isfinite(values).all() or np.abs(values).max() <= tolerance:
        return []
    slope = chebyshev.chebder(chebyshev.chebfit(_POINTS, values, 8))
    extrema = chebyshev.chebroots(slope)
    extrema = np.sort(extrema.real[(np.abs(extrema.imag) < 1e-6) & (np.abs(extrema.real) < 1 - 1e-12)])
    times = [left, *(middle + half * extrema), right]
    heights = [at_left, *(gap(t) for t in times[1:-1]), at_right]
    found: list[tuple[float, int]] = []
    previous = 0
    for n in range(1, len(times)):
        interior = n < len(times) - 1
        if interior and abs(heights[n]) <= tolerance:
            if n - previous == 1:
                found.append((float(times[n]), 0))
            continue
        start, end = heights[previous], heights[n]
        touched = n - previous > 1
        if start * end < 0:
            direction = 1 if end > 0 else -1
            if touched:
                # Flat where it crosses: the touching point found in between is the crossing.
                found[-1] = (found[-1][0], direction)
            else:
                found.append((float(brentq(gap, times[previous], times[n], xtol=1e-12)), direction))
        elif end == 0 and not interior:
            found.append((float(right), int(np.sign(chebyshev.chebval(1.0, slope)))))
        previous = n
    return found


__all__ = ["roots_in_step"]
