"""A labelled array of a result, and what storage and tables ask of a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

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


class Storable(Protocol):
    """What a result says of itself; ``aimtheory.records.Result`` is the class to derive from."""

    frame_dims: ClassVar[tuple[str, ...]]

    def variables(self) -> tuple[Variable, ...]:
        """The labelled arrays and numbers."""

    def summary(self) -> dict[str, Any]:
        """Plain data under stable keys."""

    def to_record(self) -> Mapping[str, Any]:
        """Everything, by name."""


__all__ = ["Storable", "Variable"]
