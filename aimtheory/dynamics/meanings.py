"""What names of observables mean, in words: the long names of stored variables."""

from __future__ import annotations

import re

from aimtheory.model import AttentionModel

_MEANINGS = {
    "t": "trace tr S_{0}",
    "m": "mean of the form {0}",
    "q": "overlap tr(S_{0} S_{1})",
    "q1": "overlap tr(S_{0} S_{1}^T)",
    "q2": "overlap tr(S_{0} S_{1})",
    "p": "structural overlap tr(S_{0} S_{1}^T) - tr S_{0} tr S_{1}",
}


def meaning(name: str) -> str:
    """An observable in words.

    >>> meaning("p_12"), meaning("q1_1,12"), meaning("tr(S1 S2)")
    ('structural overlap tr(S_1 S_2^T) - tr S_1 tr S_2', 'overlap tr(S_1 S_12^T)', 'normalized trace of S1 S2')
    """
    if name == "loss":
        return "population loss Phi"
    found = re.fullmatch(r"([a-z]1?2?)_(\d+)(?:,(\d+))?", name)
    if found and found[1] in _MEANINGS:
        indices = (found[2], found[3]) if found[3] or found[1] in "tm" else (found[2][:1], found[2][1:])
        return _MEANINGS[found[1]].format(*indices)
    return f"normalized trace of {name[3:-1]}" if name.startswith("tr(") else name


def time_meaning(model: AttentionModel) -> str:
    """Time in terms of SGD steps n, learning rate and dimension."""
    return f"time t = {model.clock} n learning_rate / d"


__all__ = ["meaning", "time_meaning"]
