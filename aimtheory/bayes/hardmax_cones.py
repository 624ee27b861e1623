"""Hardmax of any number of tokens: the cone of forms that give an answer, and Gaussian integrals over it.

An answer y assigns to each row a the place b*(a) of its largest form. Only the *winning* pairs {a, b*(a)} (at most T of
them) are tied to each other, and as a forest: if row a is won at b, the pair {a, b} also sits in row b, below the
winner of row b. Every other pair is bounded above by the winners of its two rows and is independent given them, so it
is integrated in closed form:

    Z = E over winners, from the roots down, of  prod_children Phi(.) prod_losers Phi((min(winners) - omega)/sigma).

That is an integral of at most T dimensions with a positive, bounded integrand for any T, done with randomized Sobol
points. Answers related by a permutation of the tokens have one value; only one of each class is integrated.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import qmc

from aimtheory.bayes.token_pairs import pair_index, pair_multiplicity
from aimtheory.spectra.law import FloatArray

_CELLS = 48


@dataclass(frozen=True)
class Cone:
    """One answer: ``winners`` (pair positions, parents first) with ``parents`` (positions in ``winners``, -1 a root);
    ``losers`` (pair positions) with ``bounds`` (the one or two winners above each); ``copies``, the size of the class.
    """

    answer: tuple[int, ...]
    winners: tuple[int, ...]
    parents: tuple[int, ...]
    losers: tuple[int, ...]
    bounds: tuple[tuple[int, ...], ...]
    copies: int


def make_cone(answer: tuple[int, ...], copies: int = 1) -> Cone | None:
    """The cone of an answer, or None when the answer is impossible (a cycle of three or more rows)."""
    tokens = len(answer)
    index = pair_index(tokens)
    winner_of_row = [int(index[a, answer[a]]) for a in range(tokens)]
    parent: dict[int, int | None] = {}
    for a in range(tokens):
        above = winner_of_row[answer[a]]
        parent[winner_of_row[a]] = None if above == winner_of_row[a] else above
    order: list[int] = []
    while len(order) < len(parent):
        ready = [pair for pair, up in parent.items() if pair not in order and (up is None or up in order)]
        if not ready:
            return None
        order.extend(ready)
    losers, bounds = [], []
    for a in range(tokens):
        for b in range(a, tokens):
            pair = int(index[a, b])
            if pair not in parent:
                losers.append(pair)
                bounds.append(tuple(sorted({order.index(winner_of_row[a]), order.index(winner_of_row[b])})))
    parents = tuple(-1 if (up := parent[pair]) is None else order.index(up) for pair in order)
    return Cone(answer, tuple(order), parents, tuple(losers), tuple(bounds), copies)


@lru_cache(maxsize=16)
def cone_classes(tokens: int) -> tuple[Cone, ...]:
    """One possible answer of every class under permutations of the tokens.

    >>> [cone.copies for cone in cone_classes(2)]
    [2, 1, 1]
    """
    classes: dict[tuple[int, ...], int] = {}
    permutations = list(itertools.permutations(range(tokens)))
    for answer in itertools.product(range(tokens), repeat=tokens):
        best = None
        for permutation in permutations:
            image = [0] * tokens
            for a, b in enumerate(answer):
                image[permutation[a]] = permutation[b]
            if best is None or tuple(image) < best:
                best = tuple(image)
        assert best is not None
        classes[best] = classes.get(best, 0) + 1
    cones = [make_cone(answer, copies) for answer, copies in sorted(classes.items())]
    return tuple(cone for cone in cones if cone is not None)


def cone_moments(cone: Cone, omega: FloatArray, sigma: FloatArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``Z`` (N,) and ``E[z 1(cone)]`` (N, P) for h = omega + sigma z, omega (N, P), sigma (P,), by the rule
    ``points`` (T, Q) or (T, N, Q) in (0, 1): the average over points of the weight, and of the weight times
    E[z | winners].

    A winner v is drawn below its parent from a histogram of ``phi(z) prod Phi((v - omega_l)/sigma_l)`` over the pairs l
    that it bounds, so that the weights are nearly constant; they are exact whatever the histogram.
    """
    count, pairs = omega.shape
    log_weight = np.zeros((count, points.shape[-1]))
    values: list[FloatArray] = []
    standard: list[tuple[int, FloatArray]] = []
    for place, (pair, parent) in enumerate(zip(cone.winners, cone.parents, strict=True)):
        below = [child for child, up in zip(cone.winners, cone.parents, strict=True) if up == place]
        below += [loser for loser, bounds in zip(cone.losers, cone.bounds, strict=True) if place in bounds]
        low = omega[:, pair] - 6.5 * sigma[pair]
        high = np.maximum(omega[:, pair], omega[:, below].max(axis=1, initial=-np.inf)) + 6.5 * sigma[pair]
        width = (high - low) / _CELLS
        middle = low[:, None] + width[:, None] * (np.arange(_CELLS) + 0.5)
        log_mass = -0.5 * ((middle - omega[:, pair, None]) / sigma[pair]) ** 2
        for other in below:
            log_mass += log_ndtr((middle - omega[:, other, None]) / sigma[other])
        top = log_mass.max(axis=1, keepdims=True)
        cumulative = np.concatenate([np.zeros((count, 1)), np.cumsum(np.exp(log_mass - top), axis=1)], axis=1)
        share = np.broadcast_to(points[place], log_weight.shape)
        level = share * cumulative[:, -1:]
        if parent >= 0:
            cell = (values[parent] - low[:, None]) / width[:, None]
            inside = np.clip(cell, 0.0, _CELLS)
            whole = np.minimum(inside.astype(np.int64), _CELLS - 1)
            left = np.take_along_axis(cumulative, whole, axis=1)
            right = np.take_along_axis(cumulative, whole + 1, axis=1)
            limit = left + (inside - whole) * (right - left)
            level = share * limit
            with np.errstate(divide="ignore"):
                log_weight += np.log(limit)
        else:
            log_weight += np.log(cumulative[:, -1:])
        # Row i of the histogram lives on [2i, 2i + 1], so that one sorted search serves all rows.
        offset = 2.0 * np.arange(count)[:, None]
        shifted = (cumulative / cumulative[:, -1:] + offset).ravel()
        found = np.searchsorted(shifted, (level / cumulative[:, -1:] + offset).ravel(), side="right")
        cell_index = np.clip(found.reshape(level.shape) - 1 - (_CELLS + 1) * np.arange(count)[:, None], 0, _CELLS - 1)
        left = np.take_along_axis(cumulative, cell_index, axis=1)
        mass = np.take_along_axis(cumulative, cell_index + 1, axis=1) - left
        fraction = np.clip(np.divide(level - left, mass, out=np.full_like(mass, 0.5), where=mass > 0), 0.0, 1.0)
        value = low[:, None] + width[:, None] * (cell_index + fraction)
        z = (value - omega[:, pair, None]) / sigma[pair]
        with np.errstate(divide="ignore"):
            log_weight += np.log(width / sigma[pair])[:, None] - 0.5 * z**2 - 0.9189385332046727 - np.log(mass)
        values.append(value)
        standard.append((pair, z))
    for pair, bounds in zip(cone.losers, cone.bounds, strict=True):
        top_value = values[bounds[0]] if len(bounds) == 1 else np.minimum(values[bounds[0]], values[bounds[1]])
        bound = (top_value - omega[:, pair, None]) / sigma[pair]
        log_inside = log_ndtr(bound)
        log_weight += log_inside
        standard.append((pair, -np.exp(-0.5 * bound**2 - 0.9189385332046727 - log_inside)))
    weight = np.exp(np.where(np.isnan(log_weight), -np.inf, log_weight))
    total = np.empty((count, pairs))
    for pair, z in standard:
        total[:, pair] = (weight * z).mean(axis=1)
    return weight.mean(axis=1), total


def cone_points(dimension: int, count: int, seed: int) -> FloatArray:
    """Scrambled Sobol points in (0, 1), shape (dimension, count), count a power of two."""
    return np.asarray(_inside(qmc.Sobol(dimension, seed=seed).random(count).T))


def _inside(points: FloatArray) -> FloatArray:
    return np.clip(points, 1e-15, 1 - 1e-15)


def signal_by_cubature(
    tokens: int, ratio: float, outer: int, inner: int, replicates: int, seed: int
) -> tuple[float, float]:
    """G(r) = 2 E |E[z | omega, y]|^2 and its standard error over independent randomizations of all points.

    Two independent inner rules estimate the two factors of the square, which removes the bias of their noise, and each
    omega has a random shift of its own, so that the inner errors average out over the outer points.
    """
    sigma = np.sqrt(pair_multiplicity(tokens))
    pairs = len(sigma)
    outer = 1 if ratio == 0 else outer
    chunk = max(1, (1 << 17) // inner)
    results = np.empty(replicates)
    for replicate in range(replicates):
        start = seed + 1000 * replicate
        rng = np.random.default_rng(start)
        omega = np.sqrt(ratio) * sigma * ndtri(cone_points(pairs, outer, start)).T
        bases = [cone_points(tokens, inner, start + k) for k in (1, 2)]
        total = 0.0
        for first in range(0, outer, chunk):
            part = omega[first : first + chunk]
            rules = [_inside((base[:, None, :] + rng.random((tokens, len(part), 1))) % 1) for base in bases]
            for cone in cone_classes(tokens):
                (z_one, moment_one), (z_two, moment_two) = (cone_moments(cone, part, sigma, rule) for rule in rules)
                alive = np.minimum(z_one, z_two) > 1e-140
                # Posterior means are of order one whatever the weights, so that no ratio has a heavy tail.
                product = (moment_one[alive] * moment_two[alive]).sum(axis=1) / (z_one[alive] * z_two[alive])
                total += cone.copies * 0.5 * float(((z_one[alive] + z_two[alive]) * product).sum())
        results[replicate] = 2 * total / outer
    return float(results.mean()), float(results.std(ddof=1) / np.sqrt(replicates))


def boundary_signal(tokens: int) -> float:
    """``lim sqrt(r) G(r)`` as r -> infinity, exactly: where V << q only one tie at a time is uncertain.

    A tie of the two largest forms i, j of a row contributes ``int phi^2/Phi`` from each side; given the tie, both forms
    are normal of variance 1/(1/D_i + 1/D_j) and the other forms of the row lie below:

        sqrt(r) G -> (4 T/sqrt(2 pi)) int phi^2/Phi
                     [ (T-1)(T-2)/2 E Phi(v/sqrt 2) Phi(v)^{T-3} + (T-1) E Phi(v)^{T-2} ],

    v of variance 1/2 in the first term (two off-diagonal forms) and 2/3 in the second (the diagonal one and another).
    """
    z = np.linspace(-12, 12, 2401)
    step = z[1] - z[0]
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * step
    sharpness = float(np.sum(np.exp(-(z**2) - np.log(2 * np.pi) - log_ndtr(z))) * step)
    off, mixed = np.sqrt(0.5) * z, np.sqrt(2 / 3) * z
    pairs = 0.5 * (tokens - 1) * (tokens - 2)
    ties = (tokens - 1) * float(density @ ndtr(mixed) ** (tokens - 2))
    if tokens > 2:
        ties += pairs * float(density @ (ndtr(off / np.sqrt(2)) * ndtr(off) ** (tokens - 3)))
    return 4 / np.sqrt(2 * np.pi) * sharpness * tokens * ties


def answer_code(answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Answers (..., T) as integers, row 0 the most significant digit base T."""
    tokens = answers.shape[-1]
    return np.asarray(answers @ (tokens ** np.arange(tokens - 1, -1, -1)))


__all__ = [
    "Cone",
    "answer_code",
    "boundary_signal",
    "cone_classes",
    "cone_moments",
    "cone_points",
    "make_cone",
    "signal_by_cubature",
]
