"""Models as TOML files: plain data, read by whitelist, written so that nothing is lost.

    tokens = 2
    parameterization = "tied"
    activation = "softmax"
    loss = "mse"

    [student]
    law = "wishart"
    width = "1/2"
    trace = 1

    [teacher]
    law = "wishart"
    width = 1
    trace = 1

A number in quotes such as "1/2" is exact, a bare decimal is a float. ``loss = "expression"`` takes ``expression =
"..."`` in G[i, j, k]; text is parsed against a whitelist and never evaluated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
import tomlkit

from aimtheory.errors import InputError
from aimtheory.files import read_text
from aimtheory.model.activations import Activation, activation
from aimtheory.model.attention_model import AttentionIndex, AttentionModel, teacher_factorization
from aimtheory.model.factorization import KINDS, default_centred, factorization
from aimtheory.model.losses import CrossEntropy, ExpressionLoss, Loss, MeanSquaredError
from aimtheory.spectra import GOE, Atomic, Empirical, GaussianFactors, Ginibre, Wishart

LAWS: Mapping[str, Any] = {
    "wishart": Wishart,
    "goe": GOE,
    "atomic": Atomic,
    "empirical": Empirical,
    "ginibre": Ginibre,
    "gaussian_factors": GaussianFactors,
}
"""Laws that a file may name; their keys are the fields of the class."""

_TOP = (
    "name",
    "tokens",
    "parameterization",
    "activation",
    "teacher_activation",
    "inverse_temperature",
    "teacher_inverse_temperature",
    "coefficients",
    "teacher_coefficients",
    "gain",
    "teacher_gain",
    "loss",
    "expression",
    "activation_expression",
    "teacher_activation_expression",
    "weight_decay",
    "centred",
    "token_covariance",
    "student",
    "teacher",
)
_PARAMETER_KEYS = {
    "inverse_temperature": "inverse_temperature",
    "coefficients": "coefficients",
    "gain": "gain",
    "activation_expression": "expression",
}


def loads(text: str, source: str = "the text") -> AttentionModel:
    """Read a model from TOML text. Raises ``InputError`` that names the key, its value and what is allowed."""
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source} is not TOML: {error}") from None
    return from_mapping(data, source)


def from_mapping(data: Mapping[str, Any], source: str = "the model") -> AttentionModel:
    """Build a model from the plain data of a TOML file."""
    for key in data:
        if key not in _TOP:
            raise InputError(f"{source} has the unknown key {key!r}; known keys are {', '.join(_TOP)}")
    for key in ("tokens", "student", "teacher"):
        if key not in data:
            raise InputError(f"{source} lacks the key {key!r}")
    kind = data.get("parameterization", "tied")
    if kind not in KINDS:
        raise InputError(f"{source}: unknown parameterization {kind!r}; choose one of {', '.join(KINDS)}")
    tokens = data["tokens"]
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
        raise InputError(f"{source}: tokens = {tokens!r} must be an integer of at least 1")
    centred = data.get("centred", default_centred(kind))
    if not isinstance(centred, bool):
        raise InputError(f"{source}: centred = {centred!r} must be true or false")
    name = data.get("name", "model")
    if not isinstance(name, str):
        raise InputError(f"{source}: name = {name!r} must be text")
    student, teacher = _law(data["student"], f"{source}: [student]"), _law(data["teacher"], f"{source}: [teacher]")
    return AttentionModel(
        tokens=tokens,
        indices=(
            AttentionIndex(factorization(kind, 0), student, True),
            AttentionIndex(teacher_factorization(kind, 1, teacher), teacher, False),
        ),
        loss=_loss(data, tokens, source),
        token_covariance=data.get("token_covariance"),
        weight_decay=data.get("weight_decay", 0),
        centred=centred,
        name=name,
    )


def _law(data: Any, where: str) -> object:
    if not isinstance(data, Mapping) or "law" not in data:
        raise InputError(f"{where} must be a table with the key 'law', one of {', '.join(LAWS)}")
    name = data["law"]
    if not isinstance(name, str) or name not in LAWS:
        raise InputError(f"{where}: unknown law {name!r}; choose one of {', '.join(LAWS)}")
    cls = LAWS[name]
    known = [field.name for field in fields(cls) if field.init or field.name in ("atoms", "eigenvalues")]
    options = {key: value for key, value in data.items() if key != "law"}
    for key in options:
        if key not in known:
            raise InputError(f"{where}: law {name!r} has no key {key!r}; its keys are {', '.join(known)}")
    try:
        return cls(**options)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: law {name!r} could not be built: {error}") from None


def _activation(data: Mapping[str, Any], prefix: str, source: str) -> Activation | None:
    name = data.get(f"{prefix}activation")
    if name is None:
        return None
    options = {
        option: data[f"{prefix}{key}"]
        for key, option in _PARAMETER_KEYS.items()
        if data.get(f"{prefix}{key}") is not None
    }
    if not isinstance(name, str):
        raise InputError(f"{source}: {prefix}activation = {name!r} must be the name of an activation")
    return activation(name, **options)


def _loss(data: Mapping[str, Any], tokens: int, source: str) -> Loss:
    kind = data.get("loss", "mse")
    for key in data:
        prefix = "teacher_" if key.startswith("teacher_") else ""
        own = key.removeprefix(prefix)
        if own not in ("activation", *_PARAMETER_KEYS):
            continue
        if kind == "expression":
            raise InputError(f"{source}: the key {key!r} means nothing to loss = 'expression'; take it out")
        if f"{prefix}activation" not in data:
            raise InputError(f"{source}: the key {key!r} is a parameter of {prefix}activation, which is not given")
    if kind == "expression":
        text = data.get("expression")
        if not isinstance(text, str):
            raise InputError(f"{source}: loss = 'expression' needs expression = '...', a formula in G[i, j, k]")
        return ExpressionLoss(text, tokens, 2)
    if "expression" in data:
        raise InputError(f"{source}: the key 'expression' goes with loss = 'expression', not with loss = {kind!r}")
    losses: dict[str, type[MeanSquaredError] | type[CrossEntropy]] = {
        "mse": MeanSquaredError,
        "cross_entropy": CrossEntropy,
    }
    if not isinstance(kind, str) or kind not in losses:
        raise InputError(f"{source}: unknown loss {kind!r}; choose one of mse, cross_entropy, expression")
    first = _activation(data, "", source)
    if first is None:
        raise InputError(f"{source} lacks the key 'activation', such as 'softmax', 'linear', 'hermite2'")
    return losses[kind](first, _activation(data, "teacher_", source))


def dumps(model: AttentionModel) -> str:
    """The model as TOML text; ``loads`` gives an equal model back.

    Raises ``InputError`` for a model that the format does not hold: it holds one trained student and one fixed
    teacher in a built-in parameterization, with laws of ``LAWS``.
    """
    document = tomlkit.document()
    for key, value in to_mapping(model).items():
        document.add(key, value)
    return tomlkit.dumps(document)


def to_mapping(model: AttentionModel) -> dict[str, Any]:
    """The model as the plain data of a TOML file."""
    if model.trainable != (True, False) or model.indices[0].factorization.kind not in KINDS:
        raise InputError(
            "only a model of one trained student and one fixed teacher in a built-in parameterization has a file form"
        )
    kind = model.indices[0].factorization.kind
    if model.indices[0].factorization != factorization(kind, 0):
        raise InputError("the student's factorization is not the built-in one; such a model has no file form")
    if model.indices[1].factorization != teacher_factorization(kind, 1, model.indices[1].law):
        raise InputError("the teacher's factorization is not the one its law implies; such a model has no file form")
    result: dict[str, Any] = {"name": model.name, "tokens": model.tokens, "parameterization": kind}
    loss = model.loss
    if isinstance(loss, ExpressionLoss):
        result |= {"loss": "expression", "expression": str(loss.formula)}
    elif isinstance(loss, MeanSquaredError | CrossEntropy):
        if loss != type(loss)(loss.student, loss.teacher):
            raise InputError("a loss with several students, teachers or weights has no file form")
        result |= _activation_mapping(loss.student, "")
        if loss.teacher != loss.student:
            result |= _activation_mapping(loss.teacher, "teacher_")
        result["loss"] = loss.name
    else:
        raise InputError(f"loss {loss!r} has no file form; use a built-in loss or an ExpressionLoss")
    result |= {"weight_decay": _plain(model.weight_decay), "centred": model.centred}
    if model.token_covariance is not None:
        result["token_covariance"] = [list(row) for row in model.token_covariance]
    result["student"] = _law_mapping(model.indices[0].law)
    result["teacher"] = _law_mapping(model.indices[1].law)
    return result


def _activation_mapping(function: Activation, prefix: str) -> dict[str, Any]:
    options = {option: key for key, option in _PARAMETER_KEYS.items()}
    result = {f"{prefix}activation": function.name}
    for option, value in function.parameters.items():
        result[f"{prefix}{options[option]}"] = _plain(value)
    return result


def _law_mapping(law: object) -> dict[str, Any]:
    for name, cls in LAWS.items():
        if type(law) is cls:
            return {"law": name} | {
                f.name: _plain(getattr(law, f.name)) for f in fields(LAWS[name]) if not f.name.startswith("_")
            }
    raise InputError(f"law {law!r} has no file form; the laws of a file are {', '.join(LAWS)}")


def _plain(value: Any) -> Any:
    """A value as TOML holds it: exact rationals as integers or text, sequences as lists."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    if isinstance(value, np.ndarray | tuple | list):
        return [_plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, sp.Basic):
        return str(value)
    return value


def load(path: str | Path) -> AttentionModel:
    """Read a model file. Raises ``InputError`` when it cannot be read or is not a model."""
    return loads(read_text(path), str(path))


__all__ = ["LAWS", "dumps", "from_mapping", "load", "loads", "to_mapping"]
