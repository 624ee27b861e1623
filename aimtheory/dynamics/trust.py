"""Until when to trust a truncated trajectory: the error that a degree leaves, from three degrees, against a tolerance.

With v_M(t) an observable at degree M, and running maxima in time (a truncation error made early stays in the state),

    d1 = max_{s <= t} |v_M - v_{M-2}|,   d0 = max_{s <= t} |v_{M-2} - v_{M-4}|,   r = max(d1/d0, 1/2),

the differences still to come are taken to shrink like a geometric series: remaining error (3/2) d1 r/(1 - r), infinite
for r >= 1. A ratio below 1/2 is not believed: gns and zero converge fast at first and slowly later. The factor 3/2 is
what the series misses of convergence like 1/k^2, k = 1, 2, ... a difference (of 1/k^p it misses (p + 1)/p). An
estimate, not a bound (ours; neither source has one); ``tests/dynamics/test_calibration.py`` measures how often it
fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aimtheory.arrays import FloatArray
from aimtheory.hierarchy import Closure

FLOOR = 0.02
"""Values below this part of an observable's largest magnitude so far are judged as if they were that large."""

_LEAST_RATIO = 0.5
_MARGIN = 1.5
_LOCAL_ERRORS = 1e2


@dataclass(frozen=True)
class Judgement:
    """The last time up to which every error is within the tolerance, and the observable that leaves it first.

    ``first`` is None when none does, ``ratio`` the size of its error in units of what is tolerated, where it leaves.
    """

    until: float
    first: str | None = None
    ratio: float = 0.0


def finer_times(times: FloatArray, steps: FloatArray, points: int) -> FloatArray:
    """The requested times and about so many in between, spaced like the steps of the integrator.

    ``steps`` are the ends of its steps, (n + 1,), from 0 on: dense where the flow is fast, whatever the span.

    >>> finer_times(np.array([0.0, 4.0]), np.array([0.0, 1.0, 4.0]), points=4).tolist()
    [0.0, 0.5, 1.0, 2.5, 4.0]
    """
    last = float(times[-1])
    inside = np.union1d(steps[steps <= last], [0.0, last])
    places = np.linspace(0.0, len(inside) - 1, max(2, points + 1))
    return np.union1d(times, np.interp(places, np.arange(len(inside)), inside))


def magnitude(values: FloatArray, least: float) -> FloatArray:
    """What an error is measured by, (n,): the value, or 2 % of its largest magnitude so far, or ``least``.

    So far, not along the whole run: a truncation that blows up later must not excuse what is wrong before. ``least``
    keeps the tolerance above the accuracy of the integrator, as for an observable that stays zero.

    >>> magnitude(np.array([100.0, 1.0, -50.0]), 1e-6).tolist()
    [100.0, 2.0, 50.0]
    """
    size = np.abs(values)
    peak = np.fmax.accumulate(size) if len(size) else size
    return np.maximum(np.maximum(size, FLOOR * peak), least)


def remaining_error(
    values: FloatArray, coarser: FloatArray, coarsest: FloatArray | None = None, *, noise: FloatArray | float = 0.0
) -> FloatArray:
    """The estimated error of values at degree M, (n,), from those at M-2 and M-4 at the same times.

    Equation: (3/2) d1 r/(1 - r), see the module; infinite where the differences do not shrink. ``coarsest`` None leaves
    d1 alone. Past the end of the coarsest run (NaN) its differences count with their largest so far; past that of
    the coarser run the error is unknown, NaN. Differences below ``noise``, the accuracy of the integrator, are none.

    >>> remaining_error(np.array([1.0]), np.array([1.3]), np.array([1.7])).round(9).tolist()
    [1.35]
    >>> remaining_error(np.array([1.0]), np.array([1.3]), np.array([1.5])).tolist()
    [inf]
    """
    if not len(values):
        return np.zeros(0)
    first = np.maximum.accumulate(np.abs(values - coarser))
    if coarsest is None:
        return first
    second = np.fmax.accumulate(np.abs(coarser - coarsest))
    least = np.maximum(noise / _LEAST_RATIO, np.finfo(np.float64).tiny)
    ratio = np.maximum(first / np.fmax(second, least), _LEAST_RATIO)
    with np.errstate(divide="ignore"):
        return np.where(
            ratio < 1, _MARGIN * first * ratio / np.abs(1 - ratio), np.where(np.isnan(ratio), np.nan, np.inf)
        )


def coarser_degrees(closure: Closure, degree: int) -> tuple[int, ...]:
    """The degrees to compare degree M with, M-2 and M-4, as far as the closure has them.

    >>> from aimtheory.hierarchy.closures import closure
    >>> coarser_degrees(closure("gns"), 11), coarser_degrees(closure("gns"), 5), coarser_degrees(closure("gns"), 3)
    ((9, 7), (3,), ())
    """
    found: list[int] = []
    current = closure.coarser_degree(degree)
    while current is not None and current >= 2 and len(found) < 2:
        found.append(current)
        current = closure.coarser_degree(current)
    return tuple(found)


def integration_noise(values: FloatArray, rtol: float, atol: float) -> FloatArray:
    """Differences of two runs below this, (n,), are errors of the integrator: 100 local errors, largest so far."""
    return _LOCAL_ERRORS * (atol + rtol * np.fmax.accumulate(np.abs(values)))


def judge(
    times: FloatArray,
    values: Mapping[str, FloatArray],
    errors: Mapping[str, FloatArray],
    *,
    tolerance: float,
    least: float,
) -> Judgement:
    """Until when all errors stay within ``tolerance`` x ``magnitude``; an error of NaN is beyond it.

    ``values`` and ``errors`` have shape (n,) by name, ``times`` (n,).

    >>> t = np.array([0.0, 1.0, 2.0])
    >>> values, errors = {"p": np.ones(3)}, {"p": np.array([0.0, 0.005, 0.02])}
    >>> judge(t, values, errors, tolerance=0.01, least=1e-9)
    Judgement(until=1.0, first='p', ratio=2.0)
    """
    names = list(errors)
    relative = np.array([errors[name] / (tolerance * magnitude(values[name], least)) for name in names])
    beyond = ~(relative <= 1)
    bad = np.flatnonzero(beyond.any(axis=0))
    if not len(bad):
        return Judgement(float(times[-1]) if len(times) else 0.0)
    row = int(np.argmax(np.where(beyond[:, bad[0]], np.nan_to_num(relative[:, bad[0]], nan=np.inf), -1.0)))
    until = float(times[bad[0] - 1]) if bad[0] else 0.0
    return Judgement(until, names[row], float(relative[row, bad[0]]))


__all__ = [
    "FLOOR",
    "Judgement",
    "coarser_degrees",
    "finer_times",
    "integration_noise",
    "judge",
    "magnitude",
    "remaining_error",
]
