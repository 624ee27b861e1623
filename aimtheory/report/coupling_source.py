"""The couplings of the drift as Python source that needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy as sp

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.observables import TracePolynomial
from aimtheory.hierarchy.symbolic_couplings import SymbolicCouplings
from aimtheory.hierarchy.system_source import numpy_text
from aimtheory.model.losses import trace_symbol
from aimtheory.report.product_source import product_source
from aimtheory.words import Word

_PROJECTION = '''
def covariance(q):
    """The closest matrix with eigenvalues of at least 0: a truncated state may leave the possible ones."""
    values, vectors = np.linalg.eigh(q)
    return q if values[0] >= 0 else (vectors * np.maximum(values, 0)) @ vectors.T
'''

_SETTLE = '''
def settle(moments, mean):
    """The means m*(q), where dPhi/dm = 0, on the branch of a mean close by (Newton's method); the others are kept."""
    q1, q2 = order_parameters(moments)
    traces = explicit_traces(moments)
    mean = np.array(mean, dtype=float)
    for _ in range(50):
        slope, curvature = mean_gradient(mean, q1, q2, traces)
        if np.linalg.eigvalsh(curvature)[0] <= 0:
            raise ValueError(f"Phi is not convex in the means at m = {mean}: start closer to the branch")
        step = np.linalg.solve(curvature, slope)
        mean[TRAINED] -= step
        if np.abs(step).max() <= 1e-14 * max(1, np.abs(mean).max()):
            return mean
    if np.abs(slope).max() <= 1e-12 * (1 + np.abs(curvature).max()):
        return mean
    raise ValueError(f"no critical point of the means close to {mean}")
'''


def coupling_source(
    couplings: Sequence[Coupling], parts: SymbolicCouplings, position: Mapping[Word, int], *, of_state: bool = True
) -> list[str]:
    """Lines that define ``order_parameters``, ``couplings`` and ``rhs`` (``settle`` too for forms with a mean).

    ``position`` says where the words stand in the array ``moments``, which is the state itself (``of_state``) or what
    the function ``moments`` of the module reads off a state. The functions call ``drift`` and numpy as ``np``.
    """
    names = coupling_names(couplings)
    count = len(parts.overlaps.plain)
    bias = bool(parts.trained)
    means, q1, q2 = parts.symbols
    tables = [(q1, "q", "q1")] if parts.tied else [(q1, "q1", "q1"), (q2, "q2", "q2")]
    rename = {symbol: sp.Symbol(f"m_{k + 1}") for k, symbol in enumerate(means)}
    unpack = {}
    for table, name, array in tables:
        for k in range(count):
            for l in range(k, count):
                symbol = sp.Symbol(f"{name}_{k + 1}_{l + 1}")
                rename[table[k, l]] = symbol
                unpack[symbol] = f"{symbol} = {array}[{k}, {l}]"
    unpack |= {sp.Symbol(f"m_{k + 1}"): f"m_{k + 1} = mean[{k}]" for k in range(count)}
    for n, trace in enumerate(parts.explicit):
        symbol = sp.Symbol(f"R_{n}")
        rename[trace_symbol(trace)] = symbol
        unpack[symbol] = f"{symbol} = traces[{n}]  # {trace}"

    def formulas(targets: Mapping[str, sp.Expr]) -> list[str]:
        """Assignments, after the order parameters that they read."""
        renamed = {name: sp.sympify(expression).xreplace(rename) for name, expression in targets.items()}
        read = set().union(*(expression.free_symbols for expression in renamed.values()))
        lines = [line for symbol, line in unpack.items() if symbol in read]
        return [*lines, *(f"{name} = {numpy_text(expression)}" for name, expression in renamed.items())]

    def matrix(rows: tuple[tuple[TracePolynomial, ...], ...]) -> str:
        return "[" + ", ".join("[" + ", ".join(_trace(p, position) for p in row) + "]" for row in rows) + "]"

    arguments = "moments, mean" if bias else "moments"
    lines = [*_PROJECTION.splitlines(), "", "", "def order_parameters(moments):"]
    if parts.tied:
        lines += [
            '    """q_kl = tr(S_k S_l) twice, as tr(S_k S_l^T) and tr(S_k S_l), projected onto the covariances."""',
            "    m = np.asarray(moments, dtype=float)",
            f"    q = covariance(np.array({matrix(parts.overlaps.plain)}))",
            "    return q, q",
        ]
    else:
        lines += [
            '    """q1_kl = tr(S_k S_l^T), q2_kl = tr(S_k S_l), with q1 + q2 and q1 - q2 projected to covariances."""',
            "    m = np.asarray(moments, dtype=float)",
            f"    q1 = np.array({matrix(parts.overlaps.transposed)})",
            f"    q2 = np.array({matrix(parts.overlaps.plain)})",
            "    plus, minus = covariance(q1 + q2), covariance(q1 - q2)",
            "    return (plus + minus) / 2, (plus - minus) / 2",
        ]
    lines += [
        "",
        "",
        "def explicit_traces(moments):",
        f'    """The traces that Phi reads: {", ".join(parts.explicit) or "none"}."""',
        "    m = np.asarray(moments, dtype=float)",
        f"    return np.array([{', '.join(_trace(p, position) for p in parts.explicit.values())}])",
    ]
    if parts.products:
        lines += product_source(parts.products, tuple(parts.explicit))
    if bias:
        lines += ["", "", f"TRAINED = {list(parts.trained)}", "", "", "def mean_gradient(mean, q1, q2, traces):"]
        lines += ['    """dPhi/dm and Phi\'\' over the trained means."""']
        if parts.products:
            lines += [
                "    by_mean, _, _, _, curvature = gradients(mean, q1, q2, traces)",
                "    return by_mean[TRAINED], curvature[np.ix_(TRAINED, TRAINED)]",
            ]
        else:
            size = len(parts.trained)
            targets = {f"slope[{n}]": expression for n, expression in enumerate(parts.mean)}
            targets |= {f"curvature[{n}, {l}]": parts.curvature[n, l] for n in range(size) for l in range(size)}
            lines += [
                f"    slope, curvature = np.zeros({size}), np.zeros(({size}, {size}))",
                *(f"    {line}" for line in formulas(targets)),
                "    return slope, curvature",
            ]
        lines += ["", *_SETTLE.splitlines()]
    lines += [
        "",
        "",
        f"def couplings({arguments}):",
        '    """The couplings in the order of COUPLINGS'
        + (', with the means m as they are given."""' if bias else ', at one state."""'),
        "    q1, q2 = order_parameters(moments)",
    ]
    if parts.explicit or parts.products:
        lines.append("    traces = explicit_traces(moments)")
    if parts.products:
        mean = "mean" if bias else f"np.zeros({count})"
        lines.append(f"    _, by_q1, by_q2, by_trace, _ = gradients({mean}, q1, q2, traces)")
        where = list(parts.explicit)
        read = {
            "gradient": "by_q1[{k}, {l}] + by_q2[{k}, {l}]",
            "gradient_transposed": "by_q1[{k}, {l}]",
            "gradient_plain": "by_q2[{k}, {l}]",
        }
        for c, name in names.items():
            if c.kind in read:
                lines.append(f"    {name} = {read[c.kind].format(k=c.k, l=c.l)}")
            elif c.kind == "trace":
                lines.append(f"    {name} = by_trace[{where.index(c.trace)}]")
    targets = {names[c]: formula for c, formula in parts.gradients.items()}
    targets |= {name: sp.Float(parts.decay) for c, name in names.items() if c.kind == "decay"}
    lines += [f"    {line}" for line in formulas(targets)] if targets else []
    if bias:
        biases = {c: name for c, name in names.items() if c.kind == "bias"}
        known = {c: name for c, name in names.items() if c.kind != "bias"}
        rows = [[_trace(parts.trace_drifts[b.k][c], position) for c in biases] for b in biases]
        rest = [
            " + ".join(f"{name} * ({_trace(parts.trace_drifts[b.k][c], position)})" for c, name in known.items())
            or "0.0"
            for b in biases
        ]
        lines += [
            "    # The biases keep tr S_k where it is: d tr S_k/dt = 0 for every trained mean.",
            "    m = np.asarray(moments, dtype=float)",
            f"    carried = np.array([{', '.join('[' + ', '.join(row) + ']' for row in rows)}])",
            f"    rest = np.array([{', '.join(rest)}])",
            f"    ({', '.join(biases.values())},) = np.linalg.solve(carried, -rest)",
        ]
    lines += [f"    return np.array([{', '.join(names.values())}], dtype=float)", "", ""]
    state = "moments" if of_state else "state"
    read_moments = [] if of_state else ["    read = moments(state)"]
    at = "moments" if of_state else "read"
    if bias:
        lines += [
            f"def rhs(t, {state}, mean):",
            '    """Time derivatives at one state, with the means settled on the branch of a mean close by."""',
            *read_moments,
            f"    return drift(couplings({at}, settle({at}, mean)), {state})",
            "",
        ]
    else:
        lines += [
            f"def rhs(t, {state}):",
            '    """Time derivatives at one state, as integrators such as scipy.integrate.solve_ivp call it."""',
            *read_moments,
            f"    return drift(couplings({at}), {state})",
            "",
        ]
    return lines


def coupling_names(couplings: Sequence[Coupling]) -> dict[Coupling, str]:
    """The couplings as identifiers, in order."""
    return {coupling: coupling.name.replace(",", "_") for coupling in couplings}


def _trace(polynomial: TracePolynomial, position: Mapping[Word, int]) -> str:
    """A linear function of the moments."""
    terms = [
        f"m[{position[word]}]" if coefficient == 1 else f"{coefficient!r} * m[{position[word]}]"
        for word, coefficient in zip(polynomial.words, polynomial.coefficients, strict=True)
    ]
    if polynomial.constant or not terms:
        terms.append(repr(polynomial.constant))
    return " + ".join(terms)


__all__ = ["coupling_names", "coupling_source"]
