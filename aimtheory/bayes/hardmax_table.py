"""The hardmax channel of T >= 3 tokens as a function of r = q/V, between its two exact ends.

    G(r) = T E C  +  T E (R - C)  -  E Delta,

E C the tie sum of a row, exact; R - C what a row adds to it, a smooth integral over T forms; Delta the coupling of the
rows through the symmetric forms (``hardmax_rows``, ``hardmax_coupling``): each correction is smaller than the last, and
falls faster with r, so few points give many digits. Scaled by ``sqrt(1 + r)`` and in ``s = sqrt(r)/(1 + sqrt(r))`` the
first is a polynomial, the second a low one times the coupling of fewer tokens (exact at T = 2, the table's own at T =
3): no slope at s = 0, no value at s = 1 (where only single ties count) and, where the answers can be enumerated, the
exact value at s = 0 and the exact integral that makes ``psi(0)`` minus the entropy of the answer. The error is 3.5
standard errors over independent randomizations, plus what the change under one more degree has beyond
its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from aimtheory.bayes.hardmax_coupling import answer_entropy, exact_coupling, sampled_coupling
from aimtheory.bayes.hardmax_rows import row_entropy, row_excess, tie_sum_mean
from aimtheory.bayes.hardmax_two_tokens import two_token_table
from aimtheory.bayes.scale_free import RatioTable, table_from_series
from aimtheory.spectra.law import FloatArray

REPLICATES = 8
_QUANTILE = 3.5
"""Of Student's law with 7 degrees of freedom, two-sided 99 %."""

_ROW_PLACES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.87)
_ROW_DEGREE = 9
_ENUMERATED = 4
"""Tokens up to which all answers are enumerated at omega = 0."""

_SIZE = 64
_NODES = np.cos(np.pi * (np.arange(_SIZE) + 0.5) / _SIZE)


@dataclass(frozen=True)
class _Place:
    """A node s, and how the coupling is measured there: ``exact`` over all answers with ``cells`` heights, or
    sampled."""

    s: float
    count: int
    exact: bool = False
    cells: int = 48

    @property
    def ratio(self) -> float:
        return (self.s / (1 - self.s)) ** 2


def _plan(tokens: int, points: int) -> tuple[_Place, ...]:
    if tokens == 3:
        size = (1, 2, 4, 4, 4, 4, 4)
        where = (0.2, 0.35, 0.5, 0.62, 0.74, 0.86, 0.94)
        return tuple(
            _Place(s, max(2, k * points // 4), True, 48 if s < 0.6 else 64) for s, k in zip(where, size, strict=True)
        )
    if tokens == 4:
        small = (_Place(0.2, 2, True), _Place(0.35, 2, True))
        return (*small, *(_Place(s, points) for s in (0.5, 0.65, 0.8, 0.92)))
    return tuple(_Place(s, points) for s in (0.0, 0.25, 0.45, 0.6, 0.75, 0.92))


def default_points(tokens: int) -> int:
    """Points a node and randomization: a power of two that keeps the error below 1e-3 (T = 3: 1e-4)."""
    return 128 if tokens == 3 else 256


@lru_cache(maxsize=16)
def hardmax_table(tokens: int, points: int, seed: int) -> RatioTable:
    """G and psi at T >= 3."""
    ties = _ties(tokens)
    rows, row_misfit = _row_part(tokens, seed)
    coupling, coupling_misfit = _coupling_part(tokens, points, seed)
    values = tokens * (ties + rows) - coupling
    mean = values.mean(axis=0)
    spread = _QUANTILE * values.std(axis=0, ddof=1) / np.sqrt(REPLICATES)
    error = float(np.max((spread + tokens * row_misfit + coupling_misfit) / mean))
    series = chebyshev.chebfit(_NODES, mean, _SIZE - 1)
    return table_from_series(np.asarray(series), error, "cubature")


@lru_cache(maxsize=16)
def _ties(tokens: int) -> FloatArray:
    """``sqrt(1 + r) E C`` of one row on the nodes."""
    multiplicity = np.ones(tokens)
    multiplicity[0] = 2
    s = 0.5 * (_NODES + 1)
    ratio = (s / (1 - s)) ** 2
    means = [tie_sum_mean(r * multiplicity, multiplicity, multiplicity) for r in ratio]
    return np.array(means) * np.sqrt(1 + ratio)


@lru_cache(maxsize=16)
def _row_part(tokens: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """``sqrt(1 + r) E(R - C)`` on the nodes, a row each randomization, and the misfit."""
    count = 2048 if tokens == 3 else 512
    ratios = [(s / (1 - s)) ** 2 for s in _ROW_PLACES]
    data = np.array(
        [
            [row_excess(tokens, r, count, seed + 1000 * k + n) * np.sqrt(1 + r) for n, r in enumerate(ratios)]
            for k in range(REPLICATES)
        ]
    )
    start = row_excess(tokens, 0.0, 1, seed)
    # psi(0) of one row is minus its entropy.
    area = row_entropy(tokens) - float(_area(_ties(tokens)))
    return _fit(np.array(_ROW_PLACES), data, _ROW_DEGREE, start, area, None)


@lru_cache(maxsize=16)
def _coupling_part(tokens: int, points: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """``sqrt(1 + r) E Delta`` on the nodes, a row each randomization, and the misfit."""
    plan = _plan(tokens, points)
    inner = 8 if tokens <= 8 else 16
    data = np.empty((REPLICATES, len(plan)))
    for k in range(REPLICATES):
        for n, place in enumerate(plan):
            stream = seed + 1000 * k + 100 + n
            if place.exact:
                value = exact_coupling(tokens, place.ratio, place.count, stream, place.cells)
            else:
                value = sampled_coupling(tokens, place.ratio, place.count, stream, inner)
            data[k, n] = value * np.sqrt(1 + place.ratio)
    start: float | None = None
    area: FloatArray | None = None
    if tokens <= _ENUMERATED:
        start = exact_coupling(tokens, 0.0, 1, 0, 128)
        rows = tokens * (_ties(tokens) + _row_part(tokens, seed)[0])
        area = np.array([_area(row) for row in rows]) - answer_entropy(tokens)
    if tokens == 3:
        degree, shape = (
            5,
            np.asarray(2 * _ties(2) - chebyshev.chebval(_NODES, two_token_table().series), dtype=np.float64),
        )
    else:
        degree, shape = 3, _coupling_part(3, default_points(3), 0)[0].mean(axis=0)
    series = np.asarray(chebyshev.chebfit(_NODES, shape, _SIZE - 1), dtype=np.float64)
    return _fit(np.array([place.s for place in plan]), data, degree, start, area, series)


def _weight(x: FloatArray) -> FloatArray:
    """``-d psi/ds = H weight``."""
    s = 0.5 * (x + 1)
    return np.asarray(0.5 * s / ((1 - s) ** 2 + s**2) ** 1.5)


def _area(values: FloatArray) -> FloatArray:
    """``-psi(0) = int_0^1 H weight ds`` of H on the nodes."""
    return np.asarray(_functional() @ values)


@lru_cache(maxsize=1)
def _functional() -> FloatArray:
    x, w = np.polynomial.legendre.leggauss(200)
    to_values = chebyshev.chebvander(x, _SIZE - 1) @ np.linalg.inv(chebyshev.chebvander(_NODES, _SIZE - 1))
    return np.asarray(0.5 * (w * _weight(x)) @ to_values)


def _fit(
    places: FloatArray,
    data: FloatArray,
    degree: int,
    start: float | None,
    area: float | FloatArray | None,
    shape: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Curves through noisy ``data`` (replicates, places): values on the nodes, and their change with the degree.

    A polynomial of s, times the Chebyshev series ``shape`` if one is given. Constraints: value ``start`` and slope 0 at
    s = 0, value 0 at s = 1, integral ``area`` (one a replicate).
    """
    noise = data.std(axis=0, ddof=1)
    noise = np.maximum(noise, 1e-9 * np.max(np.abs(data)) + 1e-3 * noise.max())
    fits = [_constrained(places, data, noise, order, start, area, shape) for order in (degree, degree + 1)]
    change = fits[1] - fits[0]
    # What the change has of noise is in the standard errors already.
    own = 2 * change.std(axis=0, ddof=1) / np.sqrt(len(data))
    return fits[0], np.sqrt(np.maximum(change.mean(axis=0) ** 2 - own**2, 0.0))


def _constrained(
    places: FloatArray,
    data: FloatArray,
    noise: FloatArray,
    degree: int,
    start: float | None,
    area: float | FloatArray | None,
    shape: FloatArray | None,
) -> FloatArray:
    def basis(x: FloatArray) -> FloatArray:
        values = chebyshev.chebvander(x, degree)
        return np.asarray(values if shape is None else values * chebyshev.chebval(x, shape)[:, None])

    weighted = basis(2 * places - 1) / noise[:, None]
    # A shape has no slope at s = 0, so that none is left to the polynomial.
    slope = np.array([float(chebyshev.chebval(-1.0, chebyshev.chebder(unit))) for unit in np.eye(degree + 1)])
    rows, values = [slope], [np.zeros(len(data))]
    if shape is None:
        rows.append(basis(np.ones(1))[0])
        values.append(np.zeros(len(data)))
    if start is not None:
        rows.append(basis(-np.ones(1))[0])
        values.append(np.full(len(data), start))
    on_nodes = basis(_NODES)
    if area is not None:
        rows.append(_functional() @ on_nodes)
        values.append(np.broadcast_to(np.asarray(area, dtype=np.float64), len(data)))
    constraint = np.array(rows)
    particular = np.linalg.pinv(constraint) @ np.array(values)
    null = np.linalg.svd(constraint)[2][len(constraint) :].T
    target = (data / noise).T - weighted @ particular
    free = np.linalg.lstsq(weighted @ null, target, rcond=None)[0]
    return np.asarray((on_nodes @ (particular + null @ free)).T)


__all__ = ["REPLICATES", "default_points", "hardmax_table"]
