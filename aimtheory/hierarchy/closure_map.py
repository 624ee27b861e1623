"""Closure maps: the words above the truncation degree as functions of the words kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy as sp

from aimtheory.errors import InputError
from aimtheory.hierarchy.moments import MomentHierarchy, moment_symbol
from aimtheory.words import Word, canonical_trace, trace_name

ClosureMap = Mapping[Word, sp.Expr]
"""Missing word -> its moment as an expression in ``moment_symbol`` of the words kept. The empty map is the zero closure
([D] (13)): a word that it does not name is zero."""


def check_closure_map(hierarchy: MomentHierarchy, closure: ClosureMap | None) -> dict[Word, sp.Expr]:
    """The map on canonical missing words, every one of them, zero where the map is silent.

    >>> import aimtheory as aim
    >>> h = aim.derive(aim.models.load("exact-linear"), 2)
    >>> S1 = h.words[0]
    >>> known = check_closure_map(h, {S1 * S1 * S1: moment_symbol(S1) * moment_symbol(h.words[2])})
    >>> str(known[h.missing[0]]), str(known[h.missing[1]])
    ('tr(S1 S1)*tr(S1)', '0')

    Raises ``InputError`` for a word that is not missing, or an expression in anything but moments that are kept.
    """
    missing = dict.fromkeys(hierarchy.missing, sp.S.Zero)
    kept = {moment_symbol(word) for word in hierarchy.words}
    for word, value in (closure or {}).items():
        canonical = canonical_trace(word)
        if canonical not in missing:
            raise InputError(
                f"the closure map gives {trace_name(canonical)}, which no equation of degree {hierarchy.degree} calls "
                "on beyond the words kept; see hierarchy.missing"
            )
        expression = sp.sympify(value) if isinstance(value, int | float) else value
        unknown = sorted(map(str, expression.free_symbols - kept))
        if unknown:
            raise InputError(
                f"the closure map gives {trace_name(canonical)} by {unknown[0]}, which is not a moment that is kept; "
                "write it in moment_symbol(word) of hierarchy.words"
            )
        missing[canonical] = expression
    return missing


def supply(hierarchy: MomentHierarchy, closure: ClosureMap | None) -> Callable[[Any], list[Any]] | None:
    """A numpy function from the moments kept to the missing ones, in the order of ``hierarchy.missing``; None when all
    are zero."""
    known = check_closure_map(hierarchy, closure) if closure else {}
    if not any(value != 0 for value in known.values()):
        return None
    moments = sp.symbols(f"m0:{len(hierarchy)}", real=True)
    rename = dict(zip(map(moment_symbol, hierarchy.words), moments, strict=True))
    function: Callable[[Any], list[Any]] = sp.lambdify(
        [moments], [known[word].xreplace(rename) for word in hierarchy.missing], modules="numpy", cse=True
    )
    return function


__all__ = ["ClosureMap", "check_closure_map", "supply"]
