"""The closed right-hand side as Python source that needs numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sympy as sp

from aimtheory.hierarchy import MomentHierarchy
from aimtheory.hierarchy.symbolic_couplings import symbolic_couplings
from aimtheory.report.coupling_source import coupling_source


def python_source(
    hierarchy: MomentHierarchy,
    initial: Sequence[float] | None = None,
    potential: sp.Expr | None = None,
    mean: Sequence[float] | None = None,
) -> str:
    """A module that needs numpy alone: ``WORDS``, ``COUPLINGS``, ``drift(couplings, moments)``, and more where it can.

    The equations of the hierarchy under the zero closure: words above the truncation degree are zero ([D] (13)), and tr
    1 is one. ``moments`` has shape (number of words, ...). Exact rational coefficients, evaluated in floats.

    Where the potential has a closed form, ``couplings(moments)`` and ``rhs(t, moments)`` close the system: the same
    right-hand side as that of ``solve(closure="zero")``. Forms with a mean take it as a further argument, a value on
    the branch, and ``settle(moments, mean)`` moves it to m*(q); ``MEAN`` is that of time zero, when given. ``INITIAL``
    are the moments at time zero, when given.

    >>> import aimtheory as aim
    >>> space = {}
    >>> exec(python_source(aim.derive(aim.models.load("exact-linear"), 2)), space)
    >>> [float(x) for x in space["rhs"](0.0, [0.5, 1.0, 0.5, 0.5, 1.5])]
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    names = {coupling: coupling.name.replace(",", "_") for coupling in hierarchy.views.couplings}
    couplings = list(names.values())
    parts = symbolic_couplings(hierarchy)
    position = {word: n for n, word in enumerate(hierarchy.words)}
    lines = [
        f'"""Closed moment equations of the model {_text(hierarchy.model.name)} at degree {hierarchy.degree}.',
        "",
        "d moments / dt = drift(couplings, moments), the moments in the order of WORDS. Zero closure: words above the",
        f"truncation degree are zero. Left out: {len(hierarchy.missing)} words.",
        "Couplings: g_kl = [grad Phi]_kl with dPhi = sum over all ordered pairs of g_kl dq_kl, q_kl = tr(S_k S_l), so",
        "that g_12 is half the derivative by the shared variable q_12; g1, g2 likewise by tr(S_k S_l^T) and",
        "tr(S_k S_l); beta_k the bias of the mean; gamma the weight decay.",
        "rhs(t, moments) closes the system: the couplings are formulas of the moments."
        if parts is not None
        else "Phi has no closed form here, so the couplings must be supplied: functions of the second moments.",
    ]
    if potential is not None:
        lines.append(f"Phi = {potential}")
    lines += [
        '"""',
        "",
        "import numpy as np",
        "",
        _tuple("WORDS", [repr(name) for name in hierarchy.names]),
        _tuple("COUPLINGS", [repr(name) for name in couplings]),
    ]
    if initial is not None:
        lines.append(_tuple("INITIAL", [repr(float(value)) for value in initial]))
    if mean is not None:
        lines.append(_tuple("MEAN", [repr(float(value)) for value in mean]))
    lines += [
        "",
        "",
        "def drift(couplings, moments):",
        '    """Time derivatives of the moments, an array of their shape."""',
        f"    ({', '.join(couplings)}{',' if couplings else ''}) = couplings",
        "    m = np.asarray(moments, dtype=float)",
        f"    if len(m) != {len(hierarchy)}:",
        f'        raise ValueError(f"{len(hierarchy)} moments are needed, in the order of WORDS; got {{len(m)}}")',
        "    result = np.zeros(m.shape)",
    ]
    for n, word in enumerate(hierarchy.words):
        # A word without letters is tr 1 = 1: the term is the coupling itself.
        kept = [
            _term(c, names[coupling], position.get(v))
            for (coupling, v), c in hierarchy.drift(word).items()
            if v in position or not len(v)
        ]
        if kept:
            lines.append(f"    # {hierarchy.names[n]}")
            lines.append(f"    result[{n}] = {_join(kept)}")
    lines += ["    return result", ""]
    if parts is not None:
        lines += coupling_source(hierarchy, parts, names)
    return "\n".join(lines)


def _term(coefficient: Fraction, coupling: str, target: int | None) -> str:
    """One term; without a target it has no moment."""
    sign = "-" if coefficient < 0 else "+"
    size = abs(coefficient)
    front = (
        ""
        if size == 1
        else f"{size.numerator} * "
        if size.denominator == 1
        else f"{size.numerator} / {size.denominator} * "
    )
    return f"{sign} {front}{coupling}" + ("" if target is None else f" * m[{target}]")


def _join(terms: Sequence[str]) -> str:
    """Terms as an expression, in parentheses over several lines when it is long."""
    first = terms[0][2:] if terms[0].startswith("+") else f"-{terms[0][2:]}"
    flat = " ".join([first, *terms[1:]])
    if len(flat) <= 100:
        return flat
    return "(\n        " + "\n        ".join([first, *terms[1:]]) + "\n    )"


def _tuple(name: str, items: Sequence[str]) -> str:
    return f"{name} = (\n" + "".join(f"    {item},\n" for item in items) + ")"


def _text(value: str) -> str:
    """A name that cannot end the docstring in which it stands."""
    return repr(value).replace("\\", "/").replace('"', "'")


__all__ = ["python_source"]
