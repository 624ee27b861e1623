"""Records on disk: NetCDF with labelled arrays, JSON for reading by eye, tables for other programs."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aimtheory.errors import InputError
from aimtheory.files import RESULT_SUFFIXES, atomic_file, check_input, check_output, read_text, write_text
from aimtheory.records.codec import decode, encode
from aimtheory.records.registry import Values, entry_of, kind_of
from aimtheory.records.tables import dataset, frame
from aimtheory.records.variable import Storable, Variable

FORMAT = 2
"""Counts the changes of the layout of files; a file of a later layout is refused."""

_INLINE = 24
"""Arrays of fewer entries sit in the record's text."""
_COMPRESSED = 512


def save(
    result: Storable, path: str | Path, *, overwrite: bool = False, values: Values | None = None, **beside: Any
) -> Path:
    """Write a result in the format of the suffix, whole or not at all.

    ``values`` replaces its ``to_record()``; ``beside`` are keys that a JSON file shows beside the summary, or instead.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(
            f"{target} ends in {suffix or 'nothing'}; the suffix chooses the format: {', '.join(RESULT_SUFFIXES)}"
        )
    check_output(target, overwrite)
    _WRITERS[suffix](result, target, values, beside)
    return target


def to_json(record: Mapping[str, Any]) -> str:
    """Plain data as JSON text, a line a key. NaN and infinities, which JSON lacks, become null; floats keep all their
    digits.

    >>> to_json({"a": np.array([1.0, np.nan])}).split()
    ['{', '"a":', '[1.0,', 'null]', '}']
    """
    lines = [f"  {json.dumps(str(key))}: {json.dumps(_plain(value), allow_nan=False)}" for key, value in record.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _plain(value: Any) -> Any:
    """Arrays as lists, numpy scalars as numbers, everything that is not finite as None, anything else as text."""
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def _header(result: Storable) -> dict[str, Any]:
    version = str(importlib.import_module("aimtheory").__version__)
    return {"format": FORMAT, "version": version, "kind": kind_of(result)}


def _tree(result: Storable, values: Values | None, sink: Callable[[np.ndarray], dict[str, Any] | None] | None) -> Any:
    entry = entry_of(result)
    assert entry is not None
    chosen = entry.to_record(result) if values is None else values
    return {name: encode(value, sink, f"{entry.kind}.{name}") for name, value in chosen.items()}


def as_data(result: Storable, **beside: Any) -> dict[str, Any]:
    """The kind and the summary of a result as plain data, with other keys beside or instead."""
    return {"kind": kind_of(result), **result.summary(), **beside}


def _write_json(result: Storable, path: Path, values: Values | None, beside: Values) -> None:
    document = {**_header(result), "values": _tree(result, values, None)}
    write_text(path, to_json({**as_data(result, **beside), "record": document}))


def _write_netcdf(result: Storable, path: Path, values: Values | None, _beside: Values) -> None:
    # An axis of length zero cannot be told from an unlimited one, so that such arrays sit in the record alone.
    shown = [item for item in result.variables() if np.size(item.values)]
    names = {id(item.values): item.name for item in shown}
    more: list[Variable] = []

    def sink(array: np.ndarray) -> dict[str, Any] | None:
        if id(array) not in names:
            if array.size < _INLINE or array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
                return None
            name = f"record_{len(more)}"
            dims = tuple(f"{name}_axis_{axis}" for axis in range(array.ndim))
            more.append(Variable(name, array, dims, "part of the record"))
            names[id(array)] = name
        return {"$variable": names[id(array)], "dtype": array.dtype.str.lstrip("<>|=")}

    header = _header(result)
    tree = _tree(result, values, sink)
    text = Variable("record", json.dumps({**header, "values": tree}, allow_nan=False), (), "all that the result holds")
    data = dataset(result, [*shown, *more, text])
    data = data.assign_attrs(aimtheory_format=FORMAT, aimtheory_version=header["version"])
    encoding: dict[str, dict[str, Any]] = {}
    for name, variable in data.variables.items():
        if variable.dtype.kind in "fiu":
            large = variable.size >= _COMPRESSED
            encoding[str(name)] = {
                "_FillValue": None,
                **({"zlib": True, "complevel": 4, "shuffle": True} if large else {}),
            }
    with atomic_file(path) as part:
        data.to_netcdf(part, engine="h5netcdf", encoding=encoding)


def _write_csv(result: Storable, path: Path, _values: Values | None, _beside: Values) -> None:
    with atomic_file(path) as part:
        frame(result).to_csv(part, index=bool(result.frame_dims))


def _write_parquet(result: Storable, path: Path, _values: Values | None, _beside: Values) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(
            f"{path}: Parquet needs the library pyarrow, pip install 'aimtheory[parquet]'; or save a .csv"
        ) from None
    with atomic_file(path) as part:
        frame(result).to_parquet(part, engine="pyarrow", index=bool(result.frame_dims))


_WRITERS: dict[str, Callable[[Storable, Path, Values | None, Values], None]] = {
    ".nc": _write_netcdf,
    ".json": _write_json,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}


def read(path: str | Path) -> Any:
    """The result in a file of ``save``, of a class that is loaded; ``InputError`` for anything else.

    A file that is missing, foreign, cut short, damaged, or of a later version is named as such.
    """
    source = check_input(path)
    with source.open("rb") as file:
        start = file.read(64)
    if source.suffix.lower() in (".csv", ".parquet"):
        raise InputError(f"{source} holds a table for other programs; save the result as .nc or .json to load it again")
    if source.suffix.lower() == ".json" or start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return _rebuild(*_read_json(source), source)
    return _rebuild(*_read_netcdf(source), source)


def _read_json(source: Path) -> tuple[Any, dict[str, np.ndarray]]:
    try:
        document = json.loads(read_text(source))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{source} is no JSON, or cut short: {error}") from None
    if not isinstance(document, Mapping) or not isinstance(document.get("record"), Mapping):
        raise InputError(
            f"{source} is not a saved result of aimtheory: it has no key 'record'. Output of --json is for other "
            "programs; save with -o FILE"
        )
    return document["record"], {}


def _read_netcdf(source: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Through HDF5: ``xarray.open_dataset`` reads the same file, but looks up every dimension of every variable."""
    import h5py

    try:
        with h5py.File(source, "r") as data:
            if "aimtheory_format" not in data.attrs or "record" not in data:
                older = str(data.attrs.get("format", "")).startswith("aimtheory-")
                raise InputError(
                    f"{source} was written by aimtheory 0.1, whose files are no longer read; compute it again"
                    if older
                    else f"{source} is not a saved result of aimtheory"
                )
            version = data.attrs.get("aimtheory_version", "unknown")
            _check_format(np.asarray(data.attrs["aimtheory_format"]).item(), version, source)
            arrays = {name: _array(item) for name, item in data.items() if isinstance(item, h5py.Dataset)}
        return json.loads(str(arrays.pop("record"))), arrays
    except InputError:
        raise
    except Exception as error:  # the libraries below raise errors of many types on damaged files
        raise InputError(f"{source} is no NetCDF file, or cut short or damaged: {error}") from None


def _array(item: Any) -> np.ndarray:
    text = item.dtype.kind == "O"
    return np.asarray(item.asstr()[()] if text else item[()])


def _check_format(found: Any, version: Any, source: Path) -> None:
    if int(found) > FORMAT:
        raise InputError(
            f"{source} was written by a later aimtheory ({version}; its layout is {int(found)}, the last known here "
            f"{FORMAT}): update aimtheory"
        )


def _check_dimensions(result: Storable) -> None:
    """A file changed by hand may hold arrays that do not fit together, or text for numbers."""
    sizes: dict[str, int] = {}
    for item in result.variables():
        array = np.asarray(item.values)
        if array.dtype.kind not in "fiubU":
            raise ValueError(f"{item.name} holds {array.dtype} values")
        for dim, size in zip(item.dims, array.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ValueError(f"{item.name} has {size} entries over {dim}, others have {sizes[dim]}")


def _rebuild(document: Any, arrays: dict[str, np.ndarray], source: Path) -> Any:
    try:
        _check_format(document["format"], document.get("version", "unknown"), source)
        result = decode({"$record": document["kind"], "values": document["values"]}, arrays)
        _check_dimensions(result)
        return result
    except InputError as error:
        raise InputError(str(error) if str(source) in str(error) else f"{source}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise InputError(f"{source} is damaged or from another version: {type(error).__name__}: {error}") from None


__all__ = ["FORMAT", "as_data", "read", "save", "to_json"]
