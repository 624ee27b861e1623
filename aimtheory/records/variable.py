"""A labelled array of a result, and what storage and tables ask of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue


@dataclass(frozen=True, eq=False)
class Variable(ByValue):
    """One labelled array of a result: ``values`` over ``dims``, with what it is and its units in words.

    A variable over the dimension of its own name is a coordinate.
    """

    name: str
    values: Any
    dims: tuple[str, ...]
    long_name: str
    units: str = "1"

    def __post_init__(self) -> None:
        if np.ndim(self.values) != len(self.dims):
            raise InputError(f"variable {self.name!r} has {np.ndim(self.values)} axes but the dimensions {self.dims}")


def numbers(result: object, **described: str) -> tuple[Variable, ...]:
    """Variables without dimensions from attributes of a result, ``name="what it is"``; None becomes NaN.

    >>> numbers(3 + 4j, real="the real part")[0].values
    3.0
    """
    found = ((name, getattr(result, name), what) for name, what in described.items())
    return tuple(Variable(name, float("nan") if value is None else value, (), what) for name, value, what in found)


class Storable(Protocol):
    """What a result says of itself; ``aimtheory.records.Result`` is the class to derive from."""

    @property
    def frame_dims(self) -> tuple[str, ...]:
        """The dimensions of the table."""

    def variables(self) -> tuple[Variable, ...]:
        """The labelled arrays and numbers."""

    def summary(self) -> dict[str, Any]:
        """Plain data under stable keys."""

    def to_record(self) -> Mapping[str, Any]:
        """Everything, by name."""


__all__ = ["Storable", "Variable", "numbers"]
