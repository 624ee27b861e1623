"""Results as labelled arrays and tables: xarray and pandas, loaded when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aimtheory.records.registry import kind_of
from aimtheory.records.variable import Storable, Variable

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


def dataset(result: Storable, variables: Sequence[Variable]) -> xr.Dataset:
    """The variables of a result as a dataset; those over the dimension of their own name are its coordinates."""
    import xarray as xr

    arrays = {
        item.name: xr.Variable(item.dims, np.asarray(item.values), {"long_name": item.long_name, "units": item.units})
        for item in variables
    }
    coordinates = [name for name, array in arrays.items() if array.dims == (name,)]
    data = xr.Dataset({name: array for name, array in arrays.items() if name not in coordinates})
    data = data.assign_coords({name: arrays[name] for name in coordinates})
    return data.assign_attrs(attributes(result))


def attributes(result: Storable) -> dict[str, str | int | float]:
    """The text and numbers of a result's summary, and its kind."""
    found: dict[str, str | int | float] = {"kind": kind_of(result)}
    for name, value in result.summary().items():
        if isinstance(value, bool):
            found[name] = int(value)
        elif isinstance(value, str | int | float | np.number):
            # A member of an enumeration of texts is stored as the text it is.
            plain = str(value) if isinstance(value, str) else value
            found[name] = plain.item() if isinstance(plain, np.number) else plain
    return found


def frame(result: Storable) -> pd.DataFrame:
    """The variables over ``result.frame_dims`` as a table with these dimensions as its index."""
    import pandas as pd

    dims = result.frame_dims
    kept = [item for item in result.variables() if set(item.dims) <= set(dims)]
    if not dims:
        return pd.DataFrame({item.name: [_scalar(item.values)] for item in kept})
    return dataset(result, kept).to_dataframe(dim_order=list(dims))


def _scalar(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


__all__ = ["attributes", "dataset", "frame"]
