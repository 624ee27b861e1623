"""Trajectories on disk: NetCDF files that xarray and any HDF5 tool read; a crash leaves the old file whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aimtheory.dynamics.dense_output import DenseOutput
from aimtheory.dynamics.status import Status
from aimtheory.errors import InputError
from aimtheory.files import atomic_file, check_output
from aimtheory.hierarchy import closure
from aimtheory.model import AttentionModel, toml

if TYPE_CHECKING:
    from aimtheory.dynamics.trajectory import Trajectory

FORMAT = "aimtheory-trajectory-1"


def save_trajectory(trajectory: Trajectory, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a trajectory to NetCDF: values and errors by observable over time, states, dense output, model and closure.

    Lossless: float64 throughout. A model without a file form (several students, a polynomial of your own) or an
    initial law given by hand is left out, and ``load_trajectory`` then needs the model for words that were not
    stored. Raises ``InputError`` when the file exists.
    """
    import h5netcdf
    import h5py

    target = check_output(path, overwrite)
    try:
        model = toml.dumps(trajectory.model)
    except InputError:
        model = ""
    meta: dict[str, Any] = {
        "format": FORMAT,
        "model": model,
        "model_name": trajectory.model.name,
        "closure": trajectory.closure.name,
        "closure_options": json.dumps(dict(trajectory.closure.options)),
        "degree": trajectory.degree,
        "status": trajectory.status.code,
        "status_notes": json.dumps(list(trajectory.status.notes)),
        "trusted_until": float(trajectory.trusted_until),
        "trust_tolerance": float(trajectory.trust_tolerance),
        "events": json.dumps({name: list(times) for name, times in trajectory.events.items()}),
        "evaluations": trajectory.evaluations,
        "given_initial": int(trajectory.initial is not None),
    }
    with atomic_file(target) as part, h5netcdf.File(str(part), "w") as file:
        for key, value in meta.items():
            file.attrs[key] = value
        names = list(trajectory.values)
        file.dimensions = {
            "observable": len(names),
            "time": len(trajectory.times),
            "state": trajectory.states.shape[1],
        }
        file.create_variable("time", ("time",), data=trajectory.times)
        label = file.create_variable("observable", ("observable",), dtype=h5py.string_dtype())
        label[...] = np.array(names, dtype=object)
        both = ("observable", "time")
        shape = (len(names), len(trajectory.times))
        for variable, table in (("values", trajectory.values), ("errors", trajectory.errors)):
            file.create_variable(variable, both, data=np.array([table[n] for n in names]).reshape(shape))
        file.create_variable("states", ("time", "state"), data=trajectory.states)
        if trajectory.initial_mean is not None:
            file.attrs["initial_mean"] = trajectory.initial_mean
        if trajectory.dense is not None:
            steps, order = trajectory.dense.coefficients.shape[:2]
            file.dimensions["step"] = steps
            file.dimensions["breakpoint"] = steps + 1
            file.dimensions["order"] = order
            file.create_variable("dense/breakpoints", ("breakpoint",), data=trajectory.dense.breakpoints)
            file.create_variable("dense/states", ("step", "state"), data=trajectory.dense.states)
            file.create_variable("dense/coefficients", ("step", "order", "state"), data=trajectory.dense.coefficients)
    return target


def load_trajectory(kind: type[Trajectory], path: str | Path, model: AttentionModel | None = None) -> Trajectory:
    """Read a trajectory written by ``save_trajectory`` as a ``kind``; see ``Trajectory.load``.

    ``InputError`` for another file. Nothing in it is executed.
    """
    import h5netcdf

    try:
        with h5netcdf.File(str(path), "r") as file:
            meta = dict(file.attrs)
            if meta.get("format") != FORMAT:
                raise InputError(
                    f"{path} is not a trajectory file (format {meta.get('format')!r}, expected {FORMAT!r})"
                )
            observables = [_text(name) for name in file["observable"][...]]
            times = np.array(file["time"][...], dtype=np.float64)
            values, errors = (
                dict(zip(observables, np.array(file[part][...], dtype=np.float64), strict=True))
                for part in ("values", "errors")
            )
            states = np.array(file["states"][...], dtype=np.float64)
            dense = None
            if "dense" in file.groups:
                dense = DenseOutput(
                    *(
                        np.array(file[f"dense/{part}"][...], dtype=np.float64)
                        for part in ("breakpoints", "states", "coefficients")
                    )
                )
    except (OSError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read the trajectory file {path}: {error}") from None
    if model is None:
        if not meta["model"]:
            raise InputError(
                f"{path} was saved without its model {meta['model_name']!r}, which has no file form; give model="
            )
        model = toml.loads(meta["model"], f"the model in {path}")
    return kind(
        model=model,
        closure=closure(str(meta["closure"]), **json.loads(meta["closure_options"])),
        degree=int(meta["degree"]),
        times=times,
        values=values,
        errors=errors,
        status=Status(str(meta["status"]), tuple(json.loads(meta["status_notes"]))),
        trusted_until=float(meta["trusted_until"]),
        trust_tolerance=float(meta["trust_tolerance"]),
        events={name: tuple(crossed) for name, crossed in json.loads(meta["events"]).items()},
        states=states,
        dense=dense,
        initial_mean=None
        if "initial_mean" not in meta
        else np.atleast_1d(np.array(meta["initial_mean"], dtype=np.float64)),
        evaluations=int(meta["evaluations"]),
    )


def _text(value: object) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


__all__ = ["FORMAT", "load_trajectory", "save_trajectory"]
