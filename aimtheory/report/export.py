"""A derivation as plain data with stable keys."""

from __future__ import annotations

from typing import Any

import sympy as sp

from aimtheory.hierarchy import MomentHierarchy
from aimtheory.model import model_summary
from aimtheory.words import trace_name

Record = dict[str, Any]


def hierarchy_record(hierarchy: MomentHierarchy, potential: sp.Expr | None = None) -> Record:
    """Derivation: ``words``, ``equations`` by word, their ``terms`` as [coefficient, coupling, word], ``missing``."""
    names = hierarchy.names
    return {
        "kind": "derivation",
        **model_summary(hierarchy.model),
        "degree": hierarchy.degree,
        "words": list(names),
        "constant": [name for name, fixed in zip(names, hierarchy.constant, strict=True) if fixed],
        "missing": [trace_name(word) for word in hierarchy.missing],
        "couplings": [coupling.name for coupling in hierarchy.views.couplings],
        "potential": None if potential is None else str(potential),
        "equations": {name: str(hierarchy.equations[word]) for name, word in zip(names, hierarchy.words, strict=True)},
        "terms": {
            name: [
                [str(coefficient), coupling.name, trace_name(target)]
                for (coupling, target), coefficient in hierarchy.drift(word).items()
            ]
            for name, word in zip(names, hierarchy.words, strict=True)
        },
    }


__all__ = ["Record", "hierarchy_record"]
