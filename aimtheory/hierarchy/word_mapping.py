"""Mappings from words, which take a word in any rotation, or its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from aimtheory.errors import InputError
from aimtheory.hierarchy.views import Views
from aimtheory.words import Word, canonical_trace

T = TypeVar("T")


class WordMapping(Mapping[Word, T]):
    """Values by canonical word, read by a word or by its name: ``h.equations["tr(S1 S2)"]``.

    A rotation or the transpose of a word names the same trace. A word that is not there raises ``InputError``, which is
    a ``ValueError``, not a ``KeyError``; ``in`` and ``get`` say so without raising.
    """

    def __init__(self, values: Mapping[Word, T], views: Views, what: str) -> None:
        self._values = dict(values)
        self._views = views
        self._what = what

    def _canonical(self, key: object) -> Word:
        if isinstance(key, str):
            return self._views.parse(key)
        if isinstance(key, Word):
            return canonical_trace(key)
        raise InputError(f"word = {key!r} is neither a Word nor text such as 'tr(S1 S2)'")

    def __getitem__(self, key: Word | str) -> T:
        if isinstance(key, Word) and key in self._values:
            return self._values[key]
        word = self._canonical(key)
        if word not in self._values:
            raise InputError(f"tr({word}) is not among the {len(self._values)} {self._what}; raise the degree")
        return self._values[word]

    def __contains__(self, key: object) -> bool:
        try:
            return self._canonical(key) in self._values
        except InputError:
            return False

    def get(self, key: Word | str, default: T | None = None) -> T | None:  # type: ignore[override]
        """The value of a word, or the default when it is not there."""
        return self[key] if key in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[Word]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'tr({word}): {value}' for word, value in self._values.items())}}}"


__all__ = ["WordMapping"]
