"""How the indices of a quantity are spelled in its name: q_12, and q_1,10 where an index has two digits."""

from __future__ import annotations

import re


def spelled_indices(*indices: int) -> str:
    """Indices counted from 0 as names count them, from 1: digits side by side, with commas where one has two digits.

    >>> spelled_indices(0, 1), spelled_indices(0, 9)
    ('12', '1,10')
    """
    separator = "," if max(indices) > 8 else ""
    return separator.join(str(index + 1) for index in indices)


def read_pair(text: str, count: int) -> tuple[int, int] | None:
    """The pair of indices that a name spells, counted from 0: ``"1,10"``, or digits that mean one pair alone.

    Of ``count`` indices, ``"110"`` can only be 1 and 10, ``"112"`` of twelve is 1 and 12 or 11 and 2: then, and for
    indices that do not exist, None.

    >>> read_pair("1,10", 10), read_pair("110", 10), read_pair("112", 12)
    ((0, 9), (0, 9), None)
    """
    parts = text.split(",")
    splits = [parts] if len(parts) == 2 else [[text[:n], text[n:]] for n in range(1, len(text))]
    pairs = [
        (int(first) - 1, int(second) - 1)
        for first, second in splits
        if re.fullmatch(r"[1-9]\d*", first)
        and re.fullmatch(r"[1-9]\d*", second)
        and max(int(first), int(second)) <= count
    ]
    return pairs[0] if len(pairs) == 1 else None


__all__ = ["read_pair", "spelled_indices"]
