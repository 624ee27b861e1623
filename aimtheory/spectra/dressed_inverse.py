r"""Traces of S = E (A^{-1} + Y)^{-1} E, with A free from the commuting E and Y, from one scalar equation.

Additive subordination of A^{-1} and Y: with R = 1/(Y + omega),

    g = tr R = tr A (1 + omega' A)^{-1},      omega + omega' = 1/g,

and the conditional expectation of (A^{-1} + Y)^{-1} on the algebra of Y is R, so that every trace is a sum over the
nodes of a quadrature of the law on which E and Y are functions. E and Y may span thousands of decades; what is stored
are log E and Z = Y/(1 + E^2), and omega R = 1/(1 + Y/omega) and omega' A/(1 + omega' A) are Fermi functions of
logarithms: their means are 1 - beta and beta, where beta tends to the rank of A.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from aimtheory.errors import AssumptionError, NumericsError
from aimtheory.spectra.law import FloatArray, SpectralLaw
from aimtheory.spectra.law_quadrature import law_quadrature

ComplexArray = NDArray[np.complex128]

_KERNEL = 1e-12
"""Eigenvalues of A below this fraction of the largest are its kernel."""


@dataclass(frozen=True, eq=False)
class StartRule:
    """Quadrature of the law of A: positive ``nodes`` (m,) with ``weights`` (m,), and the mass ``kernel`` at 0."""

    nodes: FloatArray
    weights: FloatArray
    kernel: float

    @classmethod
    def of(cls, nodes: FloatArray, weights: FloatArray) -> StartRule:
        """Split off the kernel; ``AssumptionError`` for a negative node."""
        size = float(np.abs(nodes).max(initial=0.0))
        if (nodes < -1e-9 * size).any():
            raise AssumptionError(
                f"the start has an eigenvalue {float(nodes.min()):.6g} < 0, so it is no W W^T with a real W"
            )
        moving = nodes > _KERNEL * size
        return cls(nodes[moving], weights[moving], float(weights[~moving].sum()))

    @classmethod
    def of_law(cls, law: SpectralLaw, count: int) -> StartRule:
        """The rule of a law on [0, infinity) with about ``count`` nodes a band."""
        rule = law_quadrature(law, count)
        return cls.of(rule.nodes, rule.weights)

    @cached_property
    def logarithms(self) -> FloatArray:
        """Logarithms of the nodes."""
        return np.log(self.nodes)

    @property
    def trace(self) -> float:
        """tr A."""
        return float(self.weights @ self.nodes)

    @property
    def rank(self) -> float:
        """The fraction of nonzero eigenvalues."""
        return float(self.weights.sum())


@dataclass(frozen=True, eq=False)
class DressedInverse:
    """S = E (A^{-1} + Y)^{-1} E at one time: ``weights`` (n,), ``log_kernel`` = -2 log E (n,), ``scaled`` = Z (n,), A.

    Z = Y/(1 + E^2). Exact but for the two quadratures. ``guess`` is a value of log omega to start from; it saves time
    and changes nothing else. ``NumericsError`` where A^{-1} + Y is not positive: S has blown up.

    >>> start = StartRule(np.array([1.0]), np.array([1.0]), 0.0)
    >>> S = DressedInverse(np.array([0.5, 0.5]), np.zeros(2), np.array([0.5, 1.0]), start)
    >>> [round(float(S.trace(np.ones(2))), 12), round(float((1 / (1 + 1) + 1 / (1 + 2)) / 2), 12)]
    [0.416666666667, 0.416666666667]
    """

    weights: FloatArray
    log_kernel: FloatArray
    scaled: FloatArray
    start: StartRule
    guess: float | None = None

    @cached_property
    def log_kappa(self) -> FloatArray:
        """log kappa, kappa = 1/(1 + E^2)."""
        return np.asarray(-np.logaddexp(0.0, -self.log_kernel))

    @cached_property
    def sigma(self) -> FloatArray:
        """E^2/(1 + E^2)."""
        return np.asarray(expit(-self.log_kernel))

    @cached_property
    def solution(self) -> Subordination:
        """The scalar equation solved."""
        with np.errstate(all="ignore"):
            if float(self.scaled.min()) >= 0:
                return _solve_positive(self.weights, self.log_kappa, self.scaled, self.start, self.guess)
            return _solve_signed(self.weights, self.log_kappa, self.scaled, self.start)

    @cached_property
    def P(self) -> FloatArray:
        """E^2 R at the nodes: the conditional expectation of S on the algebra of E and Y."""
        with np.errstate(over="ignore"):
            return np.asarray(self.sigma / (self.scaled + np.exp(self.solution.log_omega + self.log_kappa)))

    def trace(self, f: FloatArray) -> float:
        """tr(S f) = sum_j w_j f_j P_j, ``f`` (n,) the values of a function at the nodes."""
        return float((self.weights * self.P) @ f)

    def pair(self, f: FloatArray, h: FloatArray) -> float:
        """tr(S f S h) by the derivative of tr(h S) along Y -> Y + eps E^2 f.

        With D = tr A^2 (1 + omega' A)^{-2}, r = tr R^2 and c = (1 - D/g^2)/(D + r (1 - D/g^2)) it is
        tr(P^2 f h) - c tr(P R f) tr(P R h).
        """
        solution = self.solution
        wP = self.weights * self.P
        wPR = wP * solution.R
        r, D = float((self.weights * solution.R) @ solution.R), float((self.start.weights * solution.Q) @ solution.Q)
        response = (1 - D) / (D + r * (1 - D))
        return float((wP * self.P) @ (f * h)) - response * float(wPR @ f) * float(wPR @ h)

    def word(self, functions: Sequence[FloatArray]) -> float:
        """tr(S f_1 S f_2 ... S f_p) for any p, the f_i given by their values at the nodes, each (n,).

        The corner of the resolvent of the (p x p) block matrix A^{-1} + Y with -E^2 f_i above the diagonal, whose
        subordination function is an upper triangular matrix: its superdiagonals follow one after another from linear
        equations. Cost n p^3.
        """
        count = len(functions)
        if count == 1:
            return self.trace(functions[0])
        if count == 2:
            return self.pair(functions[0], functions[1])
        solution = self.solution
        w, u, R, Q = self.weights, self.start.weights, solution.R, solution.Q
        r, D = float((w * R) @ R), float((u * Q) @ Q)
        N = np.zeros((len(w), count, count))
        for i, f in enumerate(functions[:-1]):
            N[:, i, i + 1] = -f * self.P
        own, other, eye = np.zeros((count, count)), np.zeros((count, count)), np.eye(count)
        for order in range(1, count):
            # With the entries of this order left out, both sides give what the lower orders force.
            left = np.einsum("j,jab->ab", w * R, np.linalg.inv(eye + N + R[:, None, None] * own))
            right = np.einsum("j,jab->ab", u * Q, np.linalg.inv(eye + Q[:, None, None] * other))
            rows = np.arange(count - order)
            columns = rows + order
            a, b = left[rows, columns], right[rows, columns]
            # G_ij = a - r x = b - D y and x + y = c - G_ij, the inverse of G holding c at lower orders, in units g = 1.
            left[rows, columns] = 0.0
            c = np.linalg.inv(np.triu(left))[rows, columns]
            G = (a / r + b / D - c) / (1 / r + 1 / D - 1)
            own[rows, columns] = (a - G) / r
            other[rows, columns] = (b - G) / D
        corner = np.linalg.inv(eye + N + R[:, None, None] * own)[:, 0, count - 1]
        return float((w * self.P * functions[-1]) @ corner)


@dataclass(frozen=True, eq=False)
class Subordination:
    """The solved scalar equation: log omega, R/g at the nodes (n,), Q/g with Q = A/(1 + omega' A) at those of A (m,).

    Both have mean one. ``steps`` counts Newton steps.
    """

    log_omega: float
    R: FloatArray
    Q: FloatArray
    steps: int


_BLOWN = "S_0^{-1} + Y is not positive any more: the flow has blown up before this state"


def _solve_positive(
    w: FloatArray, log_kappa: FloatArray, Z: FloatArray, start: StartRule, guess: float | None
) -> Subordination:
    """Root of F(v) = v - log phi(e^v), phi = h_A o h_Y increasing and concave; 0 <= F' <= 1. Newton in a bracket.

    h_Y(omega) = 1/g - omega = omega (1 - gamma)/gamma with gamma = tr omega R; h_A likewise.
    """
    u, s, log_s = start.weights, start.nodes, start.logarithms
    log_kernel = math.log(start.kernel) if start.kernel > 0 else -math.inf
    log_z = np.log(Z)
    lean = log_z - log_kappa
    low, high = -np.inf, np.inf
    v = float(guess) if guess is not None else -np.log(start.trace)
    step, reach, width = np.inf, 16.0, np.inf
    for steps in range(1, 300):
        odds = lean - v
        log_full = -np.logaddexp(0.0, odds)
        top = float(log_full.max())
        full, empty = np.exp(log_full - top), np.exp(odds + log_full)
        wf = w * full
        gamma, rest = float(wf.sum()), float(w @ empty)
        eta = v - top + math.log(rest / gamma) if rest > 0 else -math.inf
        log_free = -np.logaddexp(0.0, eta + log_s)
        peak = float(log_free.max())
        free = np.exp(log_free - peak)
        uf = u * free
        mass, gA = float(uf.sum()), float(uf @ s)
        log_alpha = float(np.logaddexp(log_kernel, peak + math.log(mass)))
        gap = v - log_alpha + peak + math.log(gA)
        if not math.isfinite(gap):
            raise NumericsError(f"the subordination equation is not finite at log omega = {v:.6g}")
        low, high = (v, high) if gap < 0 else (low, v)
        a = float(wf @ empty) / (gamma * rest) if rest > 0 else 1.0
        c = float((uf * s) @ free) / gA * math.exp(peak - log_alpha)
        incline = 1 - (1 - c) * (1 - a)
        before = step
        step = float(np.clip(-gap / max(incline, 1e-14), -reach, reach))
        following = v + step
        if np.isfinite(high - low):
            # Late and at a low rank phi is a staircase, one step a node, on which Newton alone would wander.
            slow = steps % 3 == 0 and high - low > 0.25 * width
            width = high - low if steps % 3 == 0 else width
            if slow or not low < following < high:
                following = 0.5 * (low + high)
        else:
            reach *= 2
        size = 2e-15 * max(1.0, abs(v))
        if abs(step) <= size or high - low <= size or (abs(gap) <= 1e-13 and abs(step) >= 0.5 * abs(before)):
            return Subordination(v, full / gamma, s * free / gA, steps)
        v = following
    raise NumericsError(f"the subordination equation did not converge: {gap:.3g} is left at log omega = {v:.6g}")


def _solve_signed(w: FloatArray, log_kappa: FloatArray, Z: FloatArray, start: StartRule) -> Subordination:
    """Y of any sign: the largest root of omega = phi(omega). omega - phi is convex: Newton from above falls to it."""
    u, s, kernel = start.weights, start.nodes, start.kernel
    kappa = np.exp(log_kappa)
    floor = float((-Z / kappa).max())
    mean = float(w @ (Z / kappa))
    other = min(mean, 1e200)
    if not 1 + other * float(s.max()) > 0:
        raise NumericsError(_BLOWN)
    q = 1 / (1 + other * s)
    omega, step = (kernel + float(u @ q)) / float((u * s) @ q), np.inf
    for steps in range(1, 300):
        inverse = 1 / (Z + omega * kappa)
        R = kappa * inverse
        g, r = float(w @ R), float(w @ R**2)
        other = float((w * Z) @ inverse) / g
        q = 1 / (1 + other * s)
        Q = s * q
        gA, D = float(u @ Q), float(u @ Q**2)
        phi = (kernel + float(u @ q)) / gA
        slope = (D / gA**2 - 1) * (r / g**2 - 1)
        if not (np.isfinite(phi) and slope < 1 and omega > floor and 1 + other * float(s.max()) > 0):
            raise NumericsError(_BLOWN)
        before, step = step, -(omega - phi) / (1 - slope)
        if abs(step) <= 1e-15 * omega or (abs(step) <= 1e-12 * omega and abs(step) >= 0.5 * abs(before)):
            return Subordination(float(np.log(omega)), R / g, Q / gA, steps)
        omega += step
    raise NumericsError(_BLOWN)


CONSTANTS = {"_KERNEL": _KERNEL, "_BLOWN": _BLOWN}
PARTS = (StartRule, Subordination, DressedInverse, _solve_positive, _solve_signed)
"""What a module without this package needs to read traces, beside numpy as np, math, expit and two errors."""

__all__ = ["CONSTANTS", "PARTS", "DressedInverse", "StartRule", "Subordination"]
