"""The couplings of the drift as formulas of the order parameters, where the potential has a closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy as sp

from aimtheory.hierarchy.couplings import Coupling
from aimtheory.hierarchy.moments import MomentHierarchy
from aimtheory.hierarchy.observables import OverlapReader, TracePolynomial, trace_drift
from aimtheory.population import population_loss
from aimtheory.population.closed_forms import gradient_by_pairs, order_symbols, tied_symbols


@dataclass(frozen=True)
class SymbolicCouplings:
    """What the couplings are made of.

    ``gradients`` are the formulas of g_kl, g1_kl, g2_kl in the order parameters, ``mean`` those of dPhi/dm_k and
    ``curvature`` Phi'' over the ``trained`` means, empty for centred forms; ``symbols`` are (m, q1, q2), with q1 = q2 =
    q when every S_k is symmetric (``tied``). ``overlaps`` reads the order parameters off the moments, and
    ``trace_drifts[k][c]`` what a coupling c carries of d tr S_k/dt, from which the biases follow.
    """

    tied: bool
    symbols: tuple[tuple[sp.Symbol, ...], sp.Matrix, sp.Matrix]
    gradients: Mapping[Coupling, sp.Expr]
    mean: tuple[sp.Expr, ...]
    curvature: sp.Matrix
    trained: tuple[int, ...]
    overlaps: OverlapReader
    trace_drifts: Mapping[int, Mapping[Coupling, TracePolynomial]]
    decay: float


def symbolic_couplings(hierarchy: MomentHierarchy) -> SymbolicCouplings | None:
    """The couplings of a hierarchy as formulas: exact, by differentiating the closed form of Phi ([D] (10), (30)).

    None when Phi has no closed form in the order parameters that the model has, when it reads explicit traces, or when
    the order parameters are no words of the hierarchy.

    >>> import aimtheory as aim
    >>> found = symbolic_couplings(aim.derive(aim.models.load("tied-hermite2"), 2))
    >>> {coupling.name: formula for coupling, formula in found.gradients.items()}
    {'g_11': 6*q_11 - 2*q_22, 'g_12': -4*q_12}
    """
    model, views = hierarchy.model, hierarchy.views
    count = len(views.matrices)
    tied = all(matrix.is_symmetric for matrix in views.matrices)
    population = population_loss(model)
    means, q1, q2 = order_symbols(count)
    if tied:
        q1 = q2 = tied_symbols(count)
    value = population.symbolic_value([0] * count if tied or model.centred else means, q1, q2)
    biased = [coupling for coupling in views.couplings if coupling.kind == "bias"]
    drifts = {c.k: {other: trace_drift(views, views.matrices[c.k], other) for other in views.couplings} for c in biased}
    overlaps = OverlapReader.of(views)
    pairs = [p for table in (overlaps.plain, overlaps.transposed) for row in table for p in row]
    needed = {word for p in (*pairs, *(p for row in drifts.values() for p in row.values())) for word in p.words}
    if value is None or population.names or not needed <= set(hierarchy.words):
        return None
    by_kind = {
        "gradient": gradient_by_pairs(value, q1),
        "gradient_transposed": gradient_by_pairs(value, q1),
        "gradient_plain": gradient_by_pairs(value, q2),
    }
    trained = tuple(c.k for c in biased)
    mean = tuple(sp.diff(value, means[k]) for k in trained)
    return SymbolicCouplings(
        tied,
        (means, q1, q2),
        {c: sp.expand(by_kind[c.kind][c.k, c.l]) for c in views.couplings if c.kind in by_kind},
        mean,
        sp.Matrix(len(trained), len(trained), lambda i, j: sp.diff(mean[i], means[trained[j]])),
        trained,
        overlaps,
        drifts,
        float(model.weight_decay),
    )


__all__ = ["SymbolicCouplings", "symbolic_couplings"]
