"""Closures as values. Each is one module here with one ``Closure`` subclass; nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem, Closure, ClosureProblem


@cache
def _registry() -> dict[str, type[Closure]]:
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found, pending = {}, Closure.__subclasses__()
    while pending:
        cls = pending.pop()
        pending.extend(cls.__subclasses__())
        if "name" in vars(cls):  # a variant that refines a closure has a name of its own
            found[cls.name] = cls
    return found


def closure_names() -> tuple[str, ...]:
    """Names of the closures that exist."""
    return tuple(sorted(_registry()))


def closure(name: str | Closure, **options: object) -> Closure:
    """The closure of that name with its options (``dim`` and ``seed`` for ``"matrix"``); a ``Closure`` passes through.

    Raises ``InputError`` for an unknown name or option, listing what exists.
    """
    if isinstance(name, Closure):
        return name
    registry = _registry()
    if name not in registry:
        raise InputError(f"unknown closure {name!r}; choose one of {', '.join(sorted(registry))}")
    try:
        return registry[name](**options)
    except TypeError:
        raise InputError(f"closure {name!r} does not take the options {', '.join(options)}") from None


__all__ = ["ClosedSystem", "Closure", "ClosureProblem", "closure", "closure_names"]
