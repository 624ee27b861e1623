"""Values that never change: mappings and dataclasses that compare, copy, pickle and hash by what they hold.

A frozen dataclass compares its fields as tuples, which fails where a field is an array, and it pickles its caches with
it. ``ByValue`` mends both; ``FrozenMapping`` is the mapping to put into such a class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")


def same_value(first: object, second: object) -> bool:
    """Whether two values are equal, as one truth value also where arrays are inside.

    Arrays are equal when their shapes and all entries are; NaN equals NaN, since a missing value that was stored and
    read back is the same one. Mappings compare without regard to order, sequences entry by entry.

    >>> same_value({"a": np.array([1.0, np.nan])}, {"a": np.array([1.0, np.nan])})
    True
    >>> same_value((np.zeros(2),), (np.zeros(3),))
    False
    """
    if first is second:
        return True
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return _same_array(first, second)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return len(first) == len(second) and all(
            key in second and same_value(value, second[key]) for key, value in first.items()
        )
    if isinstance(first, tuple | list) and isinstance(second, tuple | list):
        return (
            isinstance(first, tuple) == isinstance(second, tuple)
            and len(first) == len(second)
            and all(map(same_value, first, second))
        )
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first) and math.isnan(second):
        return True
    return bool(first == second)


def _same_array(first: object, second: object) -> bool:
    if not (isinstance(first, np.ndarray) and isinstance(second, np.ndarray)) or first.shape != second.shape:
        return False
    if first.dtype.kind in "fc" or second.dtype.kind in "fc":
        return bool(np.array_equal(first, second, equal_nan=True))
    return bool(np.array_equal(first, second))


def hash_value(value: object, name: str = "the value") -> int:
    """A hash that agrees with ``same_value``; ``TypeError`` for an array, which may still change.

    >>> hash_value({"a": (1, 2)}) == hash_value({"a": (1.0, 2.0)})
    True
    """
    if isinstance(value, np.ndarray):
        raise TypeError(f"{name} is an array, which has no hash; use the name or the id of what holds it as a key")
    if isinstance(value, Mapping):
        return hash(frozenset((key, hash_value(item, f"{name}[{key!r}]")) for key, item in value.items()))
    if isinstance(value, tuple):
        return hash(tuple(hash_value(item, f"{name}[{n}]") for n, item in enumerate(value)))
    if isinstance(value, float) and math.isnan(value):
        return hash("nan")
    return hash(value)


class FrozenMapping(Mapping[K, V], Generic[K, V]):
    """A mapping that cannot be changed, in the order it was given; it pickles, and hashes when its values do.

    >>> sizes = FrozenMapping({"d": 1, "r": 2})
    >>> sizes["r"], sizes == {"r": 2, "d": 1}, hash(sizes) == hash(FrozenMapping(r=2, d=1))
    (2, True, True)
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = (), /, **named: V) -> None:
        object.__setattr__(self, "_items", dict(items, **named))

    def __getitem__(self, key: K) -> V:
        return self._items[key]  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._items)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return same_value(self, other) if isinstance(other, Mapping) else NotImplemented

    def __hash__(self) -> int:
        return hash_value(self, "a mapping")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a FrozenMapping cannot be changed: {name}")

    def __reduce__(self) -> tuple[type[FrozenMapping[K, V]], tuple[dict[K, V]]]:
        return type(self), (dict(self),)

    def __repr__(self) -> str:
        return f"FrozenMapping({dict(self)!r})"


class Uncached:
    """Base of frozen dataclasses whose copies and pickles leave out what ``cached_property`` has computed."""

    __slots__ = ()

    def __getstate__(self) -> dict[str, Any]:
        cached = {
            name
            for cls in type(self).__mro__
            for name, value in vars(cls).items()
            if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in cached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)


class ByValue(Uncached):
    """Base of frozen dataclasses, to be declared with ``eq=False``: equal when all compared fields are.

    Arrays and mappings inside are compared by ``same_value``. The hash is that of the fields, and a ``TypeError`` that
    names the field where one is an array. Copies and pickles carry the fields.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Curve(ByValue):
    ...     times: np.ndarray
    >>> Curve(np.arange(3.0)) == Curve(np.arange(3.0)), Curve(np.arange(3.0)) == Curve(np.arange(4.0))
    (True, False)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other):
            return NotImplemented
        return all(same_value(getattr(self, name), getattr(other, name)) for name in _compared(self))

    def __hash__(self) -> int:
        kind = type(self).__name__
        return hash((kind, *(hash_value(getattr(self, name), f"{kind}.{name}") for name in _compared(self))))


def _compared(value: object) -> list[str]:
    return [field.name for field in fields(value) if field.compare]  # type: ignore[arg-type]


__all__ = ["ByValue", "FrozenMapping", "Uncached", "hash_value", "same_value"]
