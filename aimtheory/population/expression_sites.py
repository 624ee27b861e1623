"""Sites of a loss given by an expression: independent addends, each on its smallest set of Gaussian directions.

The expression is split into addends; each is differentiated symbolically twice (Price's theorem needs the Hessian) and
compiled with shared subexpressions. The gradients of an addend at random points span the subspace of forms on which
it depends: a softmax row written out in L forms depends on L−1 differences. The cubature runs on that subspace only,
so that a loss typed by hand costs what the built-in one costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp

from aimtheory.errors import NumericsError
from aimtheory.model.losses import ExpressionLoss, compile_expressions
from aimtheory.population.pair_expectation import SiteExpectation, combine_replicas
from aimtheory.population.quadrature import (
    LADDER,
    NormalRule,
    covariance_factor,
    normal_rule,
    sobol_normals,
    tensor_nodes,
    tensor_weights,
)
from aimtheory.population.sites import FeatureLaw

_LARGEST_GRID = 600_000
_CHUNK = 1 << 15
_SOBOL_REPLICAS = 8
_SOBOL_LOG2_POINTS = 13


@dataclass(frozen=True)
class ExpressionSite:
    """An addend f of the loss, a function of the forms listed in ``forms``."""

    formula: sp.Expr
    forms: tuple[sp.Expr, ...]
    law: FeatureLaw
    multiplicity: int = 1

    @cached_property
    def _functions(self) -> tuple[Callable[..., list[object]], Callable[..., list[object]]]:
        symbols = [sp.Symbol(f"g_{n}", real=True) for n in range(len(self.forms))]
        flat = self.formula.xreplace(dict(zip(self.forms, symbols, strict=True)))
        gradient = [flat.diff(symbol) for symbol in symbols]
        hessian = [gradient[a].diff(symbols[b]) for a in range(len(symbols)) for b in range(a + 1)]
        return compile_expressions(symbols, [flat]), compile_expressions(symbols, [flat, *gradient, *hessian])

    def rows(self, points: np.ndarray, order: int) -> np.ndarray:
        """f, its gradient and the lower triangle of its Hessian at points (N, P): shape (channels, N)."""
        results = self._functions[0 if order == 0 else 1](list(points.T))
        return np.stack([np.broadcast_to(np.asarray(r, dtype=float), points.shape[:1]) for r in results])

    def unpack(self, averages: np.ndarray, order: int, error: float, method: str) -> SiteExpectation:
        """Averages of :meth:`rows` as value, gradient and Hessian."""
        if not np.isfinite(averages).all():
            raise NumericsError(
                f"the expectation of {str(self.formula)[:80]} is not finite; the order parameters may be too large, or "
                "the loss grows too fast for its Gaussian average to exist"
            )
        size = len(self.forms)
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        if order:
            gradient = averages[1 : 1 + size]
            hessian[np.tril_indices(size)] = averages[1 + size :]
            hessian = hessian + hessian.T - np.diag(np.diag(hessian))
        return SiteExpectation(float(averages[0]), gradient, hessian, error, method)

    @cached_property
    def directions(self) -> np.ndarray:
        """An orthonormal basis (rows) of the subspace of forms on which f depends, shape (p, P)."""
        size = len(self.forms)
        if size == 0:
            return np.zeros((0, 0))
        rng = np.random.default_rng(20260903)
        points = (
            rng.standard_normal((6 * size + 10, size)) * np.array([0.4, 1.0])[rng.integers(0, 2, (6 * size + 10, 1))]
        )
        gradients = self.rows(points, 1)[1 : 1 + size].T
        _, singular, basis = np.linalg.svd(gradients)
        rank = int((singular > 1e-11 * singular[0]).sum()) if singular[0] > 0 else 0
        active = basis[:rank]
        # Trust the subspace only when f is indeed a function of its projection.
        fresh = rng.standard_normal((32, size))
        whole, projected = self.rows(fresh, 0)[0], self.rows(fresh @ active.T @ active, 0)[0]
        if not np.allclose(whole, projected, rtol=1e-10, atol=1e-10 * max(1.0, float(np.abs(whole).max()))):
            return np.eye(size)
        return np.asarray(active)

    def expectation(
        self, mean: np.ndarray, covariance: np.ndarray, tolerance: float, seed: int, order: int = 2
    ) -> SiteExpectation:
        """E f, E ∂f, E ∂²f: a tensor grid up to the accuracy asked for, Sobol points beyond its reach."""
        active = self.directions
        factor = active.T @ covariance_factor(active @ covariance @ active.T)
        center = active.T @ (active @ mean)
        rank = factor.shape[1]
        best: SiteExpectation | None = None
        previous: np.ndarray | None = None
        gauss = bool(self.formula.is_polynomial(*self.forms))
        for level, (count, _) in enumerate(LADDER):
            if count**rank > _LARGEST_GRID:
                break
            averages = self._grid_average(center, factor, normal_rule(level, gauss), order)
            if rank == 0:
                return self.unpack(averages, order, 0.0, "grid")
            if previous is not None:
                error = float(np.abs(averages - previous).max())
                best = self.unpack(averages, order, error, "grid")
                if error <= tolerance * max(1.0, float(np.abs(averages).max())):
                    return best
            previous = averages
        if best is not None and best.error <= 1e-5:
            return best
        replicas = []
        for replica in range(_SOBOL_REPLICAS):
            normals = sobol_normals(rank, _SOBOL_LOG2_POINTS, seed * 1000 + replica)
            replicas.append(
                self.unpack(self.rows(center + normals @ factor.T, order).mean(axis=1), order, 0.0, "sobol")
            )
        sampled = combine_replicas(replicas)
        return sampled if best is None or sampled.error < best.error else best

    def _grid_average(self, center: np.ndarray, factor: np.ndarray, rule: NormalRule, order: int) -> np.ndarray:
        nodes, weights = tensor_nodes(rule, factor.shape[1]), tensor_weights(rule, factor.shape[1])
        total: np.ndarray | float = 0.0
        for start in range(0, len(nodes), _CHUNK):
            part = slice(start, start + _CHUNK)
            total = total + self.rows(center + nodes[part] @ factor.T, order) @ weights[part]
        return np.asarray(total)


def expression_sites(loss: ExpressionLoss, covariance: np.ndarray) -> tuple[ExpressionSite, ...]:
    """The loss split into addends; addends whose forms are contained in another's are joined to it."""
    tokens = covariance.shape[0]
    groups: list[tuple[set[sp.Expr], sp.Expr]] = []
    constant = sp.S.Zero
    addends = sorted(additive_terms(loss.formula), key=lambda term: -len(term.atoms(sp.Indexed)))
    for addend in addends:
        forms = addend.atoms(sp.Indexed)
        if not forms:
            constant += addend
            continue
        for n, (known, formula) in enumerate(groups):
            if forms <= known:
                groups[n] = (known, formula + addend)
                break
        else:
            groups.append((forms, addend))
    if not groups or constant != 0:
        groups.append((set(), constant))
    sites = []
    for forms, formula in groups:
        ordered = tuple(sorted(forms, key=lambda form: tuple(int(n) for n in form.indices[::-1])))
        maps = []
        for form in ordered:
            i, j, k = (int(n) for n in form.indices)
            select = np.zeros((1, tokens * tokens))
            select[0, i * tokens + j] = 1.0
            maps.append((k, select))
        law = FeatureLaw.of(maps, covariance) if maps else _no_features()
        sites.append(ExpressionSite(formula, ordered, law))
    return tuple(sites)


def _no_features() -> FeatureLaw:
    return FeatureLaw(np.zeros(0, dtype=int), np.zeros((0, 0)), np.zeros((0, 0)), np.zeros(0))


def additive_terms(expression: sp.Expr) -> Sequence[sp.Expr]:
    """The addends of an expression, with numeric factors distributed over sums.

    >>> x, y = sp.symbols("x y")
    >>> sorted(map(str, additive_terms(3 * (x**2 + sp.tanh(y)) / 2)))
    ['3*tanh(y)/2', '3*x**2/2']
    """
    if expression.is_Add:
        return [term for part in expression.args for term in additive_terms(part)]
    if expression.is_Mul:
        number, rest = expression.as_independent(sp.Indexed, sp.Symbol)
        if rest.is_Add:
            return [number * term for part in rest.args for term in additive_terms(part)]
    return [expression]


__all__ = ["ExpressionSite", "additive_terms", "expression_sites"]
