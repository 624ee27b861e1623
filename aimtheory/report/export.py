"""Results as plain data with stable keys, and as JSON in which a missing number is null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

from aimtheory.dynamics import Recovery, Trajectory, TruncationStudy
from aimtheory.errors import InputError
from aimtheory.hierarchy import MomentHierarchy
from aimtheory.model import AttentionModel, toml
from aimtheory.report.learning_curve import CURVE, DIAGRAM, THRESHOLD
from aimtheory.simulate import RunStatus, SgdRun
from aimtheory.words import trace_name

Record = dict[str, Any]

KINDS = ("derivation", "trajectory", "truncation", "recovery", "sgd", CURVE, DIAGRAM, THRESHOLD)
"""Records are told apart by their key ``kind``."""


def to_json(record: Mapping[str, Any]) -> str:
    """A record as JSON text. NaN and infinities, which JSON lacks, become null; floats keep all their digits.

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


def _model(model: AttentionModel) -> Record:
    try:
        text: str | None = toml.dumps(model)
    except InputError:
        text = None
    return {"model": model.name, "model_toml": text, "time_factor": float(model.time_factor)}


def hierarchy_record(hierarchy: MomentHierarchy, potential: sp.Expr | None = None) -> Record:
    """Derivation: ``words``, ``equations`` by word, their ``terms`` as [coefficient, coupling, word], ``missing``."""
    names = hierarchy.names
    return {
        "kind": "derivation",
        **_model(hierarchy.model),
        "degree": hierarchy.degree,
        "words": list(names),
        "constant": [name for name, fixed in zip(names, hierarchy.constant, strict=True) if fixed],
        "missing": [trace_name(word) for word in hierarchy.missing],
        "couplings": [coupling.name for coupling in hierarchy.views.couplings],
        "potential": None if potential is None else str(potential),
        "equations": {name: str(hierarchy.equations[word]) for name, word in zip(names, hierarchy.words, strict=True)},
        "terms": {
            name: [
                [str(coefficient), coupling.name, trace_name(target)]
                for (coupling, target), coefficient in hierarchy.drift(word).items()
            ]
            for name, word in zip(names, hierarchy.words, strict=True)
        },
    }


def trajectory_record(run: Trajectory) -> Record:
    """A trajectory: ``times``, ``values`` (name -> list), ``errors``, ``status``, ``advice``, ``trusted_until``."""
    return {
        "kind": "trajectory",
        **_model(run.model),
        "closure": run.closure.name,
        "closure_options": dict(run.closure.options),
        "degree": run.degree,
        "status": run.status.code,
        "advice": run.status.advice,
        "trusted_until": run.trusted_until,
        "trust_tolerance": run.trust_tolerance,
        "events": {name: list(crossed) for name, crossed in run.events.items()},
        "times": run.times,
        "values": dict(run.values),
        "errors": dict(run.errors),
    }


def study_record(study: TruncationStudy) -> Record:
    """Study: ``errors`` (name -> degrees x times), ``error``, ``rate``, ``convergence_time`` (null: never reached)."""
    return {
        "kind": "truncation",
        **_model(study.model),
        "closure": study.closure,
        "degrees": list(study.degrees),
        "reference": study.reference,
        "observables": list(study.observables),
        "convergence_time": study.convergence_time,
        "advice": study.verdict,
        "status": [run.status.code for run in study.trajectories],
        "trusted_until": [run.trusted_until for run in study.trajectories],
        "times": study.times,
        "values": {name: [run.values[name] for run in study.trajectories] for name in study.observables},
        "error": study.error,
        "errors": dict(study.errors),
        "rate": study.rate,
        "rate_error": study.rate_error,
    }


def sgd_record(run: SgdRun) -> Record:
    """Simulation: ``values`` are means with ``standard_errors``, ``seed_values`` each seed; ``eigenvalues``."""
    return {
        "kind": "sgd",
        **_model(run.model),
        "dim": run.dim,
        "learning_rate": run.learning_rate,
        "batch": run.batch,
        "dtype": run.dtype,
        "seeds": list(run.seeds),
        "status": run.status.code,
        "advice": run.status.advice,
        "notes": list(run.status.notes),
        "loss_samples": run.loss_samples,
        "concentration": dict(run.concentration),
        "seconds": run.seconds,
        "steps": run.steps,
        "times": run.times,
        "values": {name: run.mean(name) for name in run.values},
        "standard_errors": {name: run.standard_error(name) for name in run.values},
        "seed_values": dict(run.values),
        "eigenvalues": dict(run.eigenvalues),
    }


def read_record(text: str, source: str = "the file") -> Record:
    """The record of a JSON text written here; ``InputError`` when it is not one."""
    try:
        record = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{source} is not JSON: {error}") from None
    if not isinstance(record, dict) or record.get("kind") not in KINDS:
        raise InputError(f"{source} is not a result of aimtheory: its key 'kind' is none of {', '.join(KINDS)}")
    return record


def study_from_record(record: Mapping[str, Any], source: str = "the file") -> TruncationStudy:
    """A truncation study read back, without its trajectories."""
    return _rebuild(_study, record, source)


def sgd_from_record(record: Mapping[str, Any], source: str = "the file") -> SgdRun:
    """A simulation read back, without its matrices."""
    return _rebuild(_sgd, record, source)


def _rebuild(build: Any, record: Mapping[str, Any], source: str) -> Any:
    if not record.get("model_toml"):
        raise InputError(f"{source} was saved without its model, which has no file form, so it cannot be read back")
    try:
        return build(record, toml.loads(record["model_toml"], f"the model in {source}"))
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{source} is damaged or from another version: {type(error).__name__} {error}") from None


def _study(record: Mapping[str, Any], model: AttentionModel) -> TruncationStudy:
    converged = record["convergence_time"]
    return TruncationStudy(
        model=model,
        closure=str(record["closure"]),
        degrees=tuple(map(int, record["degrees"])),
        times=_array(record["times"]),
        reference=str(record["reference"]),
        observables=tuple(map(str, record["observables"])),
        errors={name: _array(table) for name, table in record["errors"].items()},
        rate=_array(record["rate"]),
        rate_error=_array(record["rate_error"]),
        convergence_time=float("inf") if converged is None else float(converged),
        trajectories=(),
    )


def _sgd(record: Mapping[str, Any], model: AttentionModel) -> SgdRun:
    return SgdRun(
        model=model,
        dim=int(record["dim"]),
        learning_rate=float(record["learning_rate"]),
        batch=int(record["batch"]),
        dtype=str(record["dtype"]),
        seeds=tuple(record["seeds"]),
        times=_array(record["times"]),
        steps=np.array(record["steps"], dtype=np.int64),
        values={name: _array(table) for name, table in record["seed_values"].items()},
        status=RunStatus(str(record["status"]), tuple(record["notes"])),
        loss_samples=int(record["loss_samples"]),
        concentration={name: float(value) for name, value in record["concentration"].items()},
        eigenvalues={name: _array(table) for name, table in record["eigenvalues"].items()},
        seconds=float(record["seconds"]),
    )


def _array(values: Any) -> np.ndarray:
    """Numbers with null for NaN."""
    return np.array(values, dtype=np.float64)


def recovery_record(report: Recovery) -> Record:
    """Weak recovery: ``recovers``, ``velocity``, ``reason``, ``channels``, ``threshold`` (the level),
    ``threshold_time``, ``samples``.
    """
    return {
        "kind": "recovery",
        **_model(report.model),
        "parameterization": report.parameterization,
        "pair": [index + 1 for index in report.pair],
        "recovers": report.recovers,
        "velocity": report.velocity,
        "channels": dict(report.channels),
        "mean": list(report.mean),
        "reason": report.reason,
        "vanishing": {
            "verdict": report.vanishing.verdict,
            "bound": report.vanishing.bound,
            "expression": report.vanishing.expression,
            "for_any_mean": report.vanishing.for_any_mean,
        },
        "threshold": report.level,
        "threshold_time": report.threshold_time,
        "horizon": report.horizon,
        "samples": report.samples,
        "scaling": report.scaling,
        "contraction": report.contraction,
    }


__all__ = [
    "KINDS",
    "Record",
    "hierarchy_record",
    "read_record",
    "recovery_record",
    "sgd_from_record",
    "sgd_record",
    "study_from_record",
    "study_record",
    "to_json",
    "trajectory_record",
]
