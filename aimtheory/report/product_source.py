"""Gradients of a potential made of products of functions of one Gaussian feature, as Python source (numpy alone)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp

from aimtheory.hierarchy.symbolic_couplings import FEATURE, FeatureProducts
from aimtheory.hierarchy.system_source import numpy_text

_AVERAGES = """
def pair_averages(f, g, mean, cov):
    \"\"\"E <f^(a)(u), g^(b)(v)> for the derivatives a, b = 0, 1, 2, (u, v) Gaussian: (3, 3).

    The trapezoid rule. For analytic functions half a step squares its error: the last change need not be rounding.
    \"\"\"
    spread = np.sqrt(max(cov[0, 0], 0))
    slope = cov[0, 1] / spread if spread > 0 else 0.0
    rest = np.sqrt(max(cov[1, 1] - slope**2, 0))

    def rule(step):
        z = step * np.arange(-np.ceil(9.5 / step), np.ceil(9.5 / step) + 1)
        weights = step * np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        outer = np.array(f(mean[0] + spread * z)) * weights
        inner = np.array(g(mean[1] + slope * z[:, None] + rest * z)) @ weights
        return np.einsum("aon,bon->ab", outer, inner)

    step, value = 0.25, rule(0.25)
    while step > 0.01:
        step, coarse, value = step / 2, value, rule(step / 2)
        if np.abs(value - coarse).max() <= 1e-8 * max(1e-300, np.abs(value).max()):
            break
    return value
"""

_GRADIENTS = """
def gradients(mean, q1, q2, traces):
    \"\"\"dPhi/dm, dPhi/dq1, dPhi/dq2 (over ordered pairs), dPhi/dR and d2Phi/dm2, by Price's theorem.\"\"\"
    by_mean, by_q1, by_q2 = np.zeros(len(mean)), np.zeros(q1.shape), np.zeros(q1.shape)
    by_trace, curvature = np.zeros(len(traces)), np.zeros(q1.shape)
    for weight, trace, a, coupling, functions, first, second, factor in PRODUCTS:
        m, cov = factor * (a @ mean), first * (a @ q1 @ a.T) + second * (a @ q2 @ a.T)
        value, slope, hessian = 0.0, np.zeros(len(m)), np.zeros(cov.shape)
        for s, f in enumerate(functions):
            for t, g in enumerate(functions[: s + 1]):
                if coupling[s, t] == 0:
                    continue
                pair = [s, t]
                size = coupling[s, t] * (0.5 if s == t else 1.0)
                E = size * pair_averages(f, g, m[pair], cov[np.ix_(pair, pair)])
                value += E[0, 0]
                slope[s] += E[1, 0]
                slope[t] += E[0, 1]
                hessian[s, s] += E[2, 0]
                hessian[t, t] += E[0, 2]
                hessian[s, t] += E[1, 1]
                hessian[t, s] += E[1, 1]
        if trace is not None:
            by_trace[trace] += weight * value
            weight = weight * traces[trace]
        by_mean += weight * a.T @ (factor * slope)
        by_q1 += weight / 2 * a.T @ (first * hessian) @ a
        by_q2 += weight / 2 * a.T @ (second * hessian) @ a
        curvature += weight * a.T @ (np.outer(factor, factor) * hessian) @ a
    return by_mean, by_q1, by_q2, by_trace, curvature
"""


def product_source(products: Sequence[FeatureProducts], traces: Sequence[str]) -> list[str]:
    """Lines that define ``gradients(mean, q1, q2, traces)`` of the potential; ``traces`` gives their order."""
    numbers: dict[tuple[sp.Expr, ...], int] = {}
    lines: list[str] = []
    rows = []
    for piece in products:
        for outputs in piece.functions:
            if outputs not in numbers:
                numbers[outputs] = len(numbers)
                lines += _function(numbers[outputs], outputs)
        functions = ", ".join(f"function_{numbers[outputs]}" for outputs in piece.functions)
        tables = [piece.first, piece.second, piece.mean]
        rows.append(
            f"    ({piece.weight!r}, {None if piece.trace is None else list(traces).index(piece.trace)}, "
            f"{_array(piece.combination)}, {_array(piece.coupling)}, ({functions},), {', '.join(map(_array, tables))}),"
        )
    head = ["", "", "# weight, trace, slots, W, functions, and how q1, q2 and m enter the law of their features"]
    return [*lines, *head, "PRODUCTS = (", *rows, ")", "", *_AVERAGES.splitlines(), "", *_GRADIENTS.splitlines()]


def _function(number: int, outputs: tuple[sp.Expr, ...]) -> list[str]:
    orders = [[sp.diff(output, FEATURE, order) for output in outputs] for order in range(3)]
    text = [[numpy_text(expression) for expression in row] for row in orders]
    tables = [", ".join(f"{entry} + 0 * x" for entry in row) for row in text]
    needs_erf = any("erf(" in table for table in tables)
    return [
        "",
        "",
        f"def function_{number}(x):",
        '    """The outputs, their first and their second derivatives, (3, outputs, ...)."""',
        *(["    import math", "", "    erf = np.vectorize(math.erf, otypes=[float])"] if needs_erf else []),
        "    return [" + ", ".join(f"[{table}]" for table in tables) + "]",
    ]


def _array(values: np.ndarray) -> str:
    return f"np.array({values.tolist()!r})"


__all__ = ["product_source"]
