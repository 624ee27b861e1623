"""Closures as values. Each is one module here with one ``Closure`` subclass; nothing else lists them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from inspect import isabstract, signature

from aimtheory.errors import InputError
from aimtheory.hierarchy.closed_system import ClosedSystem, Closure, ClosureProblem


@cache
def _load_own() -> None:
    """Import the closures of this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")


def _registry() -> dict[str, list[type[Closure]]]:
    """Classes by name, read anew at each call: a closure may be defined at any time, in any module or notebook.

    A name has several classes only where they are different closures; a class that is defined again, as when a cell
    of a notebook is run twice, replaces the earlier one.
    """
    _load_own()
    found: dict[str, dict[tuple[str, str], type[Closure]]] = {}
    pending = Closure.__subclasses__()
    for cls in pending:  # grows: subclasses of subclasses come after their base, later definitions after earlier ones
        pending.extend(cls.__subclasses__())
        if "name" in vars(cls) and not isabstract(cls):  # a variant that refines a closure has a name of its own
            found.setdefault(cls.name, {})[cls.__module__, cls.__qualname__] = cls
    return {name: list(classes.values()) for name, classes in found.items()}


def closure_names() -> tuple[str, ...]:
    """Names of the closures that exist."""
    return tuple(sorted(_registry()))


def closure(name: str | Closure, **options: object) -> Closure:
    """The closure of that name with its options (``dim`` and ``seed`` for ``"matrix"``); a ``Closure`` passes through.

    Every ``Closure`` subclass with a ``name`` is known by it from its definition on. Raises ``InputError`` for an
    unknown name or option, listing what exists, and for a name that two different classes claim.

    >>> closure("matrix", dim=100, seed=0)
    Matrix(dim=100, seed=0)
    """
    if isinstance(name, Closure):
        return name
    if isinstance(name, type) and issubclass(name, Closure):
        raise InputError(f"closure = {name.__name__} is a class; give a value, {name.__name__}(...)")
    registry = _registry()
    if not isinstance(name, str) or name not in registry:
        raise InputError(f"unknown closure {name!r}; choose one of {', '.join(sorted(registry))}")
    classes = registry[name]
    if len(classes) > 1:
        rivals = ", ".join(f"{cls.__module__}.{cls.__qualname__}" for cls in classes)
        raise InputError(f"closure {name!r} is the name of {rivals}; rename one, or give the closure as a value")
    try:  # by the signature, not by the call: a TypeError inside the class is its own
        signature(classes[0]).bind(**options)
    except TypeError as error:
        given = ", ".join(options) or "(none)"
        raise InputError(f"closure {name!r} does not take the options {given}: {error}") from None
    return classes[0](**options)


__all__ = ["ClosedSystem", "Closure", "ClosureProblem", "closure", "closure_names"]
