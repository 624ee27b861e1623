"""The record of a closure: its name and its options."""

from __future__ import annotations

from aimtheory.hierarchy.closures import Closure, closure
from aimtheory.records import register

register(
    "closure",
    Closure,
    lambda value: {"name": value.name, "options": dict(value.options)},
    lambda values: closure(values["name"], **values["options"]),
)

__all__: list[str] = []
