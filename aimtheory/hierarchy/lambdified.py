"""The readable and arbitrary-precision right-hand side: one sympy expression a word, lambdified."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from aimtheory.errors import InputError
from aimtheory.hierarchy.closure_map import ClosureMap, check_closure_map
from aimtheory.hierarchy.moments import MomentHierarchy, moment_symbol

Drift = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def lambdified_drift(hierarchy: MomentHierarchy, module: str = "numpy", closure: ClosureMap | None = None) -> Drift:
    """A function (couplings, moments) -> time derivatives of all words, from the sympy equations, under a closure map.

    ``module`` is ``"numpy"`` or ``"mpmath"``; with mpmath the arithmetic has whatever precision is set. Slower than the
    sparse operators by orders of magnitude to build and to evaluate, and equal to them (a test holds the two together).
    """
    if module not in ("numpy", "mpmath"):
        raise InputError(f"module {module!r} is not supported; choose 'numpy' or 'mpmath'")
    closed = {moment_symbol(word): value for word, value in check_closure_map(hierarchy, closure).items()}
    # Position in the state, not the printed name, names the argument: names such as tr(S1 S2) are not identifiers.
    moments = sp.symbols(f"m0:{len(hierarchy)}", real=True)
    rename = dict(zip(map(moment_symbol, hierarchy.words), moments, strict=True))
    couplings = [coupling.symbol for coupling in hierarchy.views.couplings]
    expressions = [equation.xreplace(closed).xreplace(rename) for equation in hierarchy.equations.values()]
    function: Drift = sp.lambdify([couplings, moments], expressions, modules=module, cse=True)
    return function


__all__ = ["lambdified_drift"]
