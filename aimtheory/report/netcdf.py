"""Records with labelled axes on disk: NetCDF files that xarray and any HDF5 tool read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aimtheory.errors import InputError
from aimtheory.files import atomic_file

FORMAT = "aimtheory-record-1"


def save_netcdf(path: str | Path, record: Mapping[str, Any], dimensions: Mapping[str, tuple[str, ...]]) -> Path:
    """Write a record whose entries named in ``dimensions`` are arrays of numbers or text over these dimensions.

    Numbers are float64, infinities and NaN included. Everything else becomes attributes: text and numbers as they are,
    and all of it as JSON in ``metadata``. The file is written whole or not at all, and replaces an older one.
    """
    import h5netcdf
    import h5py

    from aimtheory.report.export import to_json

    target = Path(path)
    arrays = {name: np.asarray(record[name]) for name in dimensions}
    rest = {name: value for name, value in record.items() if name not in dimensions}
    with atomic_file(target) as part, h5netcdf.File(str(part), "w") as file:
        file.attrs["format"] = FORMAT
        file.attrs["metadata"] = to_json(rest)
        for name, value in rest.items():
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                file.attrs[name] = value
        file.dimensions = {
            dimension: length
            for name, axes in dimensions.items()
            for dimension, length in zip(axes, arrays[name].shape, strict=True)
        }
        for name, axes in dimensions.items():
            if arrays[name].dtype.kind == "U":
                text = file.create_variable(name, axes, dtype=h5py.string_dtype())
                text[...] = arrays[name].astype(object)
            else:
                file.create_variable(name, axes, data=arrays[name].astype(np.float64))
    return target


def load_netcdf(path: str | Path) -> dict[str, Any] | None:
    """The record of a file written by ``save_netcdf``; None for another NetCDF file, ``InputError`` for no NetCDF."""
    import h5netcdf

    try:
        with h5netcdf.File(str(path), "r") as file:
            if dict(file.attrs).get("format") != FORMAT:
                return None
            record = dict(json.loads(str(file.attrs["metadata"])))
            for name, variable in file.variables.items():
                values = np.asarray(variable[...])
                record[name] = [_text(item) for item in values] if values.dtype.kind == "O" else values
            return record
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"cannot read the file {path}: {error}") from None


def _text(value: object) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


__all__ = ["FORMAT", "load_netcdf", "save_netcdf"]
