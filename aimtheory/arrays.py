"""Arrays of real numbers from what a user has: lists, masked arrays, data-frame columns, arrays of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aimtheory.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def real_array(values: ArrayLike, name: str, ndim: int | None = None) -> NDArray[np.float64]:
    """A fresh float64 array of finite real numbers; ``InputError`` names the entry that is none, and what to do.

    Nothing is dropped or guessed: a masked, missing, complex (but for an imaginary part of exactly 0), textual,
    infinite or NaN entry is refused, as is a number of dimensions other than ``ndim``. Objects that are real numbers
    (fractions, decimals, sympy and mpmath numbers) are rounded once.

    >>> from fractions import Fraction
    >>> real_array([Fraction(1, 2), 2 + 0j], "weights")
    array([0.5, 2. ])
    """
    array = _numbers(values, name)
    if ndim is not None and array.ndim != ndim:
        raise InputError(f"{name} must be a {ndim}-d array of real numbers; got shape {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        raise InputError(f"{_entry(name, bad[0])} = {array[tuple(bad[0])]} is not finite")
    return array


def _numbers(values: ArrayLike, name: str) -> NDArray[np.float64]:
    _refuse_masked(values, name)
    if hasattr(values, "to_numpy") and hasattr(values, "isna"):
        _refuse_missing(values, name)
    try:
        raw = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is not an array of real numbers: {error}") from None
    kind = raw.dtype.kind
    if kind == "c":
        return _real_part(raw, name)
    if kind == "O" and raw.ndim:
        flat = [_real(item, name, place, raw.shape) for place, item in enumerate(raw.ravel().tolist())]
        return np.array(flat, dtype=np.float64).reshape(raw.shape)
    if kind not in "fiub":
        what = f"a {type(values).__name__}" if kind == "O" else f"an array of dtype {raw.dtype}"
        raise InputError(f"{name} is {what}, not an array of real numbers; give a list or a float array")
    with np.errstate(over="ignore"):
        return np.array(raw, dtype=np.float64)


def _refuse_masked(values: Any, name: str) -> None:
    """numpy drops the mask of a masked array, and what it hides becomes a number like any other."""
    if isinstance(values, np.ma.MaskedArray):
        hidden = int(np.ma.count_masked(values))
        if hidden:
            raise InputError(
                f"{hidden} of the {values.size} entries of {name} are masked, and a masked entry is no number; pass "
                "values.compressed() to leave them out, or values.filled(number) to say what they are"
            )
    elif isinstance(values, Sequence) and not isinstance(values, str | bytes):
        for place, item in enumerate(values):
            if item is np.ma.masked or isinstance(item, np.ma.MaskedArray):
                _refuse_masked(np.ma.array([0.0], mask=[True]) if item is np.ma.masked else item, f"{name}[{place}]")


def _refuse_missing(values: Any, name: str) -> None:
    """A data-frame column may hold a missing value that is not NaN."""
    missing = np.argwhere(np.asarray(values.isna(), dtype=bool))
    if len(missing):
        raise InputError(f"{_entry(name, missing[0])} is missing; pass values.dropna() to leave such entries out")


def _real_part(raw: np.ndarray, name: str) -> NDArray[np.float64]:
    wrong = np.argwhere(raw.imag != 0)
    if len(wrong):
        raise InputError(
            f"{_entry(name, wrong[0])} is {raw[tuple(wrong[0])]}, which is not real; pass values.real if its imaginary "
            "part is rounding"
        )
    return np.array(raw.real, dtype=np.float64)


def _real(item: Any, name: str, place: int, shape: tuple[int, ...]) -> float:
    where = np.array(np.unravel_index(place, shape))
    try:
        if isinstance(item, str | bytes) or item is None:
            raise TypeError
        number = complex(item)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{_entry(name, where)} is {item!r}, not a real number") from None
    if number.imag != 0:
        raise InputError(f"{_entry(name, where)} is {item!r}, which is not real")
    return number.real


def _entry(name: str, place: np.ndarray) -> str:
    return f"{name}[{', '.join(str(int(n)) for n in place)}]" if len(place) else name


__all__ = ["BoolArray", "FloatArray", "IntArray", "real_array"]
