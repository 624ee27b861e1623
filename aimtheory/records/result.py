"""What every result can do: save itself, and become an xarray dataset or a pandas table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.records import storage, tables
from aimtheory.records.registry import field_values
from aimtheory.records.variable import Variable

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Result(ByValue):
    """Base of results: frozen dataclasses, declared with ``eq=False`` and a kind of record.

    A subclass lists its ``variables()``, and in ``summary()`` what ``--json`` prints. ``frame_dims`` are the dimensions
    of its table. Equal results hold equal values; what a result holds decides whether it can be a key.
    """

    frame_dims: ClassVar[tuple[str, ...]] = ()

    def variables(self) -> tuple[Variable, ...]:
        """The labelled arrays and numbers of the result."""
        raise NotImplementedError

    def summary(self) -> dict[str, Any]:
        """Plain data under stable keys: numbers, text, lists, arrays."""
        return dict(field_values(self))

    def to_record(self) -> Mapping[str, Any]:
        """Everything the result holds, by name; ``from_record`` gives an equal result back."""
        return field_values(self)

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Self:
        """The result of ``to_record``."""
        return cls(**values)

    def to_xarray(self) -> xr.Dataset:
        """An ``xarray.Dataset`` with named dimensions, units and long names; the summary's text and numbers are its
        attributes.
        """
        return tables.dataset(self, self.variables())

    def to_dataframe(self) -> pd.DataFrame:
        """A ``pandas.DataFrame`` over the dimensions of the result's table; one row when there are none."""
        return tables.frame(self)

    def save(self, path: str | Path, *, overwrite: bool = False, **beside: Any) -> Path:
        """Write a file; its suffix chooses the format. An existing file is kept unless ``overwrite``.

        ``.nc`` (NetCDF) and ``.json`` hold everything, for ``aimtheory.load``; ``.csv`` and ``.parquet`` hold the table
        of ``to_dataframe`` for other programs. Raises ``InputError`` for another suffix and for values that have no
        record. A JSON file shows the keys ``beside`` next to the summary.
        """
        return storage.save(self, path, overwrite=overwrite, **beside)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a result of this class back; ``InputError`` when the file holds another one."""
        found = storage.read(path)
        if not isinstance(found, cls):
            raise InputError(f"{path} holds a {type(found).__name__}, not a {cls.__name__}; use aimtheory.load")
        return found


__all__ = ["Result"]
