"""Checks of single numbers: integers, positive and finite numbers, each made once and with one message."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aimtheory.errors import InputError


def check_integer(value: Any, name: str, lowest: int | None = None, highest: int | None = None) -> int:
    """The value as an int within bounds, both included; ``InputError`` for a float, a bool, text or what lies outside.

    >>> check_integer(np.int64(3), "dim", 2)
    3
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    if not whole or (lowest is not None and value < lowest) or (highest is not None and value > highest):
        span = f" of at least {lowest}" if lowest is not None and highest is None else ""
        span = f" from {lowest} to {highest}" if lowest is not None and highest is not None else span
        span = f" of at most {highest}" if lowest is None and highest is not None else span
        raise InputError(f"{name} = {value!r} must be an integer{span}")
    return int(value)


def check_finite(value: Any, name: str) -> float:
    """The value as a finite float, from any number that has one; ``InputError`` for a bool, text or what has none.

    >>> check_finite(np.float32(0.5), "level")
    0.5
    """
    if isinstance(value, bool | np.bool_ | str | bytes):
        raise InputError(f"{name} = {value!r} is not a number")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} = {value!r} is not a number") from None
    if not math.isfinite(number):
        raise InputError(f"{name} = {value!r} must be a finite number")
    return number


def check_positive(value: Any, name: str) -> float:
    """The value as a finite float above 0, else ``InputError``."""
    try:
        number = check_finite(value, name)
    except InputError:
        number = math.nan
    if not number > 0:
        raise InputError(f"{name} = {value!r} must be a positive number")
    return number


__all__ = ["check_finite", "check_integer", "check_positive"]
