"""Clusters of atoms that a noise cannot tell apart, replaced by the few nodes of a Gauss rule.

On the curve of subordination (see ``subordination``) ``sum_i w_i/|w - t_i|^2 <= 1/Delta``. Atoms of total weight W
within r of a centre therefore lie ``sqrt(W Delta) - r`` from every point of the curve, and where that is at least 3 r
all that is asked of them there, ``f(t)`` analytic up to that distance, is integrated by a Gauss rule of n nodes up to
``(3 + sqrt(8))^(-2n)`` of its size. A spectrum that was computed in single precision, with a cloud of zeros, is then as
cheap as one with exact zeros, at every noise but those that resolve the cloud.
"""

from __future__ import annotations

import math

import numpy as np

from aimtheory.spectra.law import FloatArray, jacobi_of_atoms
from aimtheory.spectra.subordination import AtomTransform, SubordinatedSpectrum

_RATIO, _NODES = 4.0, 11
"""``sqrt(W Delta) >= 4 r`` leaves a distance of 3 r; eleven nodes then err by 1e-17."""


def condensed(points: FloatArray, weights: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """Fewer atoms (ascending) and weights that are the same law to every noise of variance Delta = ``noise`` or more.

    Greedy from the left: the longest run of atoms within ``sqrt(W Delta)/4`` of its middle, if longer than the rule.

    >>> points, weights = condensed(np.append(1e-7 * np.linspace(-1, 1, 100), 2.0), np.full(101, 1 / 101), 1e-3)
    >>> len(points), round(float(weights.sum()), 12)
    (12, 1.0)
    """
    if len(points) <= _NODES:
        return points, weights
    total = np.append(0.0, np.cumsum(weights))
    locations, masses = [], []
    start = 0
    while start < len(points):
        radius = 0.5 * (points[start:] - points[start])
        inside = np.flatnonzero((total[start + 1 :] - total[start]) * noise >= (_RATIO * radius) ** 2)
        end = start + int(inside[-1]) + 1
        here, mass = points[start:end], weights[start:end]
        if len(here) > _NODES:
            here, mass = _gauss_rule(here, mass)
            start = end
        else:
            here, mass = here[:1], mass[:1]
            start += 1
        locations.append(here)
        masses.append(mass)
    return np.concatenate(locations), np.concatenate(masses)


def _gauss_rule(points: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle, half = 0.5 * (points[0] + points[-1]), 0.5 * (points[-1] - points[0])
    nodes, shares = jacobi_of_atoms((points - middle) / half, weights, _NODES).gauss_quadrature()
    return middle + half * nodes, math.fsum(weights) * shares


_PANEL_TOLERANCE = 1e-9
"""Legendre tails of a panel between atoms, where everything is analytic: the Gauss rule errs by their square."""


def noisy_atoms(atoms: tuple[tuple[float, float], ...], noise: float) -> SubordinatedSpectrum:
    """The spectrum of a law of atoms, pairs (location, weight), seen through Gaussian noise of variance ``noise``."""
    pairs = np.array(atoms)
    points, weights = condensed(pairs[:, 0], pairs[:, 1], noise)
    return SubordinatedSpectrum(AtomTransform(points, weights), noise, _PANEL_TOLERANCE)


__all__ = ["condensed", "noisy_atoms"]
