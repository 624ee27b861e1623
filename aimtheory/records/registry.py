"""Which classes have a record: a kind, a mapping of values, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from aimtheory.errors import InputError

T = TypeVar("T")
Values = Mapping[str, Any]

_BY_KIND: dict[str, Entry] = {}
_BY_CLASS: dict[type, Entry] = {}


@dataclass(frozen=True)
class Entry:
    """A kind of record. ``to_record`` gives the values of an object by name, ``from_record`` the object again."""

    kind: str
    cls: type
    to_record: Callable[[Any], Values]
    from_record: Callable[[Values], Any]


def record(kind: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: give a class the record ``kind``.

    A dataclass is stored by the fields of its constructor, an enumeration by its value. Methods ``to_record()`` and
    ``from_record(values)`` (a class method) replace either way. What the values hold is stored in
    turn: numbers, text, arrays, sympy expressions, sequences, mappings, and objects with a record of their own.

    >>> @record("docstring-point")
    ... @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    >>> entry_of(Point(1.0)).to_record(Point(1.0))
    {'x': 1.0}
    """

    def decorate(cls: type[T]) -> type[T]:
        take = (lambda value: {"value": value.value}) if issubclass(cls, Enum) else field_values
        give = (lambda values: cls(values["value"])) if issubclass(cls, Enum) else (lambda values: cls(**values))
        if hasattr(cls, "to_record"):
            take = lambda value: value.to_record()  # noqa: E731
        register(kind, cls, take, getattr(cls, "from_record", give))
        return cls

    return decorate


def register(kind: str, cls: type, to_record: Callable[[Any], Values], from_record: Callable[[Values], Any]) -> None:
    """Give a class a record from outside; subclasses without one of their own share it.

    Raises ``InputError`` when the kind belongs to another class.
    """
    known = _BY_KIND.get(kind)
    # A module that is loaded anew defines its classes anew.
    if known is not None and (known.cls.__module__, known.cls.__qualname__) != (cls.__module__, cls.__qualname__):
        raise InputError(f"the kind of record {kind!r} belongs to {known.cls.__qualname__}; choose another name")
    _BY_KIND[kind] = _BY_CLASS[cls] = Entry(kind, cls, to_record, from_record)


def field_values(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that its constructor takes."""
    if not is_dataclass(value):
        raise InputError(f"{type(value).__name__} is no dataclass; give it to_record() and from_record()")
    return {field.name: getattr(value, field.name) for field in fields(value) if field.init}


def entry_of(value: object) -> Entry | None:
    """The entry of the object's class or of the nearest base class that has one."""
    return next((_BY_CLASS[cls] for cls in type(value).__mro__ if cls in _BY_CLASS), None)


def kind_of(value: object) -> str:
    """The kind of record of an object; ``InputError`` when its class has none."""
    entry = entry_of(value)
    if entry is None:
        raise InputError(f"{type(value).__name__} has no kind of record; decorate it with aimtheory.records.record")
    return entry.kind


def entry_named(kind: str) -> Entry:
    """The entry of a kind; ``InputError`` for an unknown one."""
    if kind not in _BY_KIND:
        raise InputError(f"{kind!r} is no kind of record known here; import what defines it first, or update aimtheory")
    return _BY_KIND[kind]


def kinds() -> tuple[str, ...]:
    """All kinds of which the classes are loaded."""
    return tuple(sorted(_BY_KIND))


__all__ = ["Entry", "Values", "entry_named", "entry_of", "field_values", "kind_of", "kinds", "record", "register"]
