"""Averages of one softmax row over any number of tokens: its square, its own token, its partition function ("ours").

A row has independent logits g_j: variance a off the row's own token, variance b and mean m at it. Then, with λ_a of
:mod:`aimtheory.population.gumbel_smoothing`, F = exp(−eˣ) and S(x) = Σ_rows x^{length−1},

    Σ_rows E Σ_j σ_j²   = ∫ du [ S'(λ_a) (λ_a'' − λ_a') λ_b + S(λ_a) (λ_b'' − λ_b') ],
    Σ_rows E σ_own      = −∫ du S(λ_a) λ_b',
    Σ_rows E log Σ e^g  = ∫ du [ S(1) e^{−e^u} − S(λ_a) λ_b ] = ∫ du u d/du[S(λ_a) λ_b] − γ S(1),

λ_b taken at u + m. One-dimensional integrals, whatever the number of tokens; derivatives by a and b are half the second
derivative by u under the integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from aimtheory.errors import NumericsError
from aimtheory.population.gumbel_smoothing import Resolution, gumbel_derivatives
from aimtheory.population.row_lengths import RowLengths

FloatArray = NDArray[np.float64]

_MOST_NODES = 20_000


@dataclass(frozen=True)
class RowAverages:
    """Sums over all rows of two tokens and more: each entry is (value, ∂ by a, ∂ by b, ∂ by m)."""

    others_square: FloatArray
    """E Σ_{j≠own} σ_j²."""
    own_square: FloatArray
    """E σ_own²."""
    own: FloatArray
    """E σ_own."""
    log_partition: FloatArray
    """E log Σ_j e^{g_j}."""

    @property
    def square(self) -> FloatArray:
        """E Σ_j σ_j²."""
        return self.others_square + self.own_square


def logit_range(
    lengths: RowLengths, off: float, own: float, mean: float, resolution: Resolution
) -> tuple[float, float]:
    """Where the integrands over u live: below, a token adds less than the tail; above, the other tokens leave nothing.

    Below, λ_a' ~ exp(u + a/2), or the Gaussian tail exp(−u²/2a) where that is smaller; above, λ_a^{L−1} or λ_a' ends.
    """
    cut = -math.log(resolution.tail)

    def low(variance: float, count: float, shift: float) -> float:
        depth = math.log(count) + cut
        gaussian = math.sqrt(2 * variance * depth)
        return -shift - (gaussian + 4.0 if gaussian < variance else depth + variance / 2)

    largest, shortest = lengths.tokens, lengths.shortest
    below = min(low(off, largest, 0.0), low(own, 1.0, max(mean, 0.0)))
    deviation = math.sqrt(off)
    above = deviation * math.sqrt(2 * cut) + 3.6
    if shortest > 60:
        above = min(above, math.log(2 * cut / (shortest - 1)) + 0.7)
        share = 1.6 * cut / (shortest - 1)
        if share < 0.5:
            above = min(above, deviation * special.ndtri(share) + 0.7)
    return below, max(above, below + 1.0)


def graded_nodes(
    lengths: RowLengths, off: float, own: float, mean: float, resolution: Resolution
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights for ∫ du of a row: a trapezoid rule in t, u = t − 2 log(1 + e^{c−t}).

    The spacing is the scale on which the integrand varies: that of exp(−eˣ), or of the Gaussian where this is wider,
    shortened by the number of tokens; it grows threefold in the exponential tail to the left.
    """
    below, above = logit_range(lengths, off, own, mean, resolution)
    narrow = min(off, own)
    spread = 1 + math.sqrt(2 * math.log(lengths.tokens))
    scale = max(1.0 + 0.15 * min(1.0, narrow), 1.7 * math.sqrt(narrow) / spread)
    step = resolution.step * scale
    centre = -math.log(lengths.tokens) - max(mean, 0.0) - 2 * math.sqrt(max(off, own)) if off < 9 else below
    count = (above - below) / step
    if not count < _MOST_NODES:
        raise NumericsError(
            f"a softmax row whose logits have the variances {off:.3g} and {own:.3g} needs {count:.3g} nodes, more than "
            f"{_MOST_NODES}: the inverse temperature is too large for one of the order parameters"
        )
    return graded_trapezoid(below, above, centre, step, scale)


def graded_trapezoid(
    below: float, above: float, centre: float, step: float, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of ∫ du from ``below`` to ``above``: spacing ``step`` right of the centre, thrice that left."""
    start = (below + 2 * centre) / 3 if below < centre else below
    t = np.arange(math.floor(start / step), math.ceil(above / step) + 1) * step
    pull = (t - centre) / scale
    nodes = t - 2 * scale * np.logaddexp(0.0, -pull)
    return nodes, step * (1 + 2 * special.expit(-pull))


def row_averages(lengths: RowLengths, off: float, own: float, mean: float, resolution: Resolution) -> RowAverages:
    """The averages and their exact derivatives, summed over the rows of two tokens and more.

    >>> from aimtheory.population.gumbel_smoothing import FINE
    >>> found = row_averages(RowLengths(2), 0.0, 0.0, 0.0, FINE)  # two rows (1/2, 1/2)
    >>> bool(abs(found.square[0] - 1) < 1e-9), bool(abs(found.log_partition[0] - 2 * np.log(2)) < 1e-9)
    (True, True)
    """
    u, w = graded_nodes(lengths, off, own, mean, resolution)
    q = gumbel_derivatives(u, off, 4, resolution)
    d = gumbel_derivatives(u + mean, own, 4, resolution)
    s0, s1, s2 = lengths.generating(q[0])
    kept = 1.0 - d[0]
    half = 0.5 * q[2]
    # Derivatives of λ_a by a are ½λ_a'', of S by a S'½λ_a''.
    square_q, square_d = q[2] - q[1], d[2] - d[1]
    others = np.array([
        w @ (s1 * square_q * kept),
        w @ ((s2 * half * square_q + s1 * 0.5 * (q[4] - q[3])) * kept),
        w @ (s1 * square_q * 0.5 * d[2]),
        w @ (s1 * square_q * d[1]),
    ])  # fmt: skip
    own_square = np.array([
        w @ (s0 * square_d),
        w @ (s1 * half * square_d),
        w @ (s0 * 0.5 * (d[4] - d[3])),
        w @ (s0 * (d[3] - d[2])),
    ])  # fmt: skip
    own_share = -np.array([w @ (s0 * d[1]), w @ (s1 * half * d[1]), w @ (s0 * 0.5 * d[3]), w @ (s0 * d[2])])
    # S(λ_a) λ_b falls like the law of a Gumbel variable minus log Σ: its mean is −γ − E log Σ.
    density = -(s1 * q[1] * kept + s0 * d[1])
    log_partition = -np.array([
        w @ (u * density) + np.euler_gamma * lengths.rows,
        w @ (s1 * half * kept),
        w @ (s0 * 0.5 * d[2]),
        w @ (s0 * d[1]),
    ])  # fmt: skip
    return RowAverages(others, own_square, own_share, log_partition)


__all__ = ["RowAverages", "graded_nodes", "graded_trapezoid", "logit_range", "row_averages"]
