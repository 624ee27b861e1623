"""Models as TOML files: plain data, read by whitelist, written so that nothing is lost.

    activation = "softmax"
    loss = "mse"

    [parameters.W1]
    columns = "r1"
    law = "gaussian_entries"
    width = "1/2"
    trace = 1

    [parameters.W2]
    columns = "r2"
    law = "gaussian_entries"
    width = 1
    trace = 1
    trained = false

    [forms]
    S1 = "W1 W1^T"
    S2 = "W2 W2^T"

    [[contexts]]
    tokens = 2

One student and one teacher have a short form: ``tokens``, ``parameterization`` and the tables ``[student]`` and
``[teacher]``, laws of S_1 and S_2. A number in quotes such as "1/2" is exact, a bare decimal is a float. ``activation``
is a name or a formula such as "tanh(x)"; ``loss = "expression"`` takes ``expression = "..."`` in G[i, j, k] and the
names of ``[traces]``. A law ``empirical`` takes ``file = "spectrum.npy"`` beside the file. Text is parsed against a
whitelist and never evaluated.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import tomlkit

from aimtheory.errors import InputError
from aimtheory.files import read_text
from aimtheory.model.attention_model import AttentionModel
from aimtheory.model.context import Context
from aimtheory.model.form import Form, Trace
from aimtheory.model.losses import Loss, LossShape, loss_types
from aimtheory.model.parameter import Parameter
from aimtheory.model.parameterization import PARAMETERIZATIONS, fixed_teacher, parameterized
from aimtheory.model.spectrum_file import read_spectrum
from aimtheory.spectra import MatrixLaw, law_types, plain

_COMMON = ("name", "loss", "weight_decay", "centred", "clock", "contexts", "tokens", "token_covariance")
_GENERAL = ("parameters", "forms", "traces", "names", "means", "detached")
_SHORT = ("parameterization", "student", "teacher")
_PARAMETER = ("rows", "columns", "trained", "symmetric", "law")
_CONTEXT = ("tokens", "token_covariance", "weight")


def loads(text: str, source: str = "the text", folder: Path | None = None) -> AttentionModel:
    """Read a model from TOML text; files that it names are looked for in ``folder``.

    Raises ``InputError`` that names the key, its value and what is allowed.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source} is not TOML: {error}") from None
    return from_mapping(data, source, folder)


def from_mapping(data: Mapping[str, Any], source: str = "the model", folder: Path | None = None) -> AttentionModel:
    """Build a model from the plain data of a TOML file; errors begin with ``source``."""
    try:
        return _model(data, source, folder)
    except InputError as error:
        if str(error).startswith(source):
            raise
        raise type(error)(f"{source}: {error}") from None


def _model(data: Mapping[str, Any], source: str, folder: Path | None) -> AttentionModel:
    losses = loss_types()
    loss_name = data.get("loss", "mse")
    if not isinstance(loss_name, str) or loss_name not in losses:
        raise InputError(
            f"{source}: unknown loss {loss_name!r}{_nearest(loss_name, losses)}; choose one of {', '.join(losses)}"
        )
    kind = losses[loss_name]
    known = (
        *_COMMON,
        *_GENERAL,
        *_SHORT,
        *dict.fromkeys(key for loss in losses.values() for key in loss.mapping_keys()),
    )
    for key in data:
        if key not in known:
            raise InputError(
                f"{source} has the unknown key {key!r}{_nearest(key, known)}; known keys are {', '.join(known)}"
            )
        if key not in (*_COMMON, *_GENERAL, *_SHORT, *kind.mapping_keys()):
            raise InputError(f"{source}: the key {key!r} means nothing to loss = {loss_name!r}; take it out")
    name = data.get("name", "model")
    if not isinstance(name, str):
        raise InputError(f"{source}: name = {name!r} must be text")
    centred = data.get("centred", True)
    if not isinstance(centred, bool):
        raise InputError(f"{source}: centred = {centred!r} must be true or false")
    contexts = _contexts(data, source)
    build = _short if any(key in data for key in _SHORT) else _general
    parts = build(data, source, folder)
    traces = parts.get("traces", ())
    counts = {context.tokens for context in contexts}
    shape = LossShape(
        counts.pop() if len(counts) == 1 else None, len(parts["forms"]), tuple(trace.name for trace in traces)
    )
    return AttentionModel(
        **{"centred": centred, **parts},
        loss=_loss(data, kind, shape, source),
        contexts=contexts,
        weight_decay=data.get("weight_decay", 0),
        clock=data.get("clock"),
        name=name,
    )


def _nearest(key: object, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(str(key), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _table(data: Mapping[str, Any], key: str, source: str) -> Mapping[str, Any]:
    table = data.get(key, {})
    if not isinstance(table, Mapping):
        raise InputError(f"{source}: {key} = {table!r} must be a table, [{key}]")
    return table


def _contexts(data: Mapping[str, Any], source: str) -> tuple[Context, ...]:
    if "contexts" not in data:
        if "tokens" not in data:
            raise InputError(f"{source} lacks the key 'tokens' (or a table [[contexts]])")
        return (_context({k: data[k] for k in ("tokens", "token_covariance") if k in data}, source),)
    if "tokens" in data or "token_covariance" in data:
        raise InputError(f"{source} has [[contexts]] and the key 'tokens' or 'token_covariance'; keep one of both")
    given = data["contexts"]
    if not isinstance(given, list) or not given or not all(isinstance(each, Mapping) for each in given):
        raise InputError(f"{source}: contexts = {given!r} must be tables [[contexts]], at least one")
    return tuple(_context(each, f"{source}: [[contexts]] {n + 1}") for n, each in enumerate(given))


def _context(data: Mapping[str, Any], where: str) -> Context:
    _refuse_unknown(data, _CONTEXT, where)
    if "tokens" not in data:
        raise InputError(f"{where} lacks the key 'tokens'")
    try:
        return Context(data["tokens"], data.get("token_covariance"), data.get("weight", 1))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _refuse_unknown(data: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    allowed = tuple(known)
    for key in data:
        if key not in allowed:
            raise InputError(f"{where} has no key {key!r}{_nearest(key, allowed)}; its keys are {', '.join(allowed)}")


def _short(data: Mapping[str, Any], source: str, folder: Path | None) -> dict[str, Any]:
    """One student and one teacher by their laws."""
    for key in _GENERAL:
        if key in data:
            raise InputError(f"{source} has [{key}] beside the short form of student and teacher; keep one of both")
    for key in ("student", "teacher"):
        if key not in data:
            raise InputError(f"{source} lacks the key {key!r}")
    kind = data.get("parameterization", "tied")
    if not isinstance(kind, str) or kind not in PARAMETERIZATIONS:
        raise InputError(
            f"{source}: unknown parameterization {kind!r}{_nearest(kind, PARAMETERIZATIONS)}; choose one of "
            f"{', '.join(PARAMETERIZATIONS)}"
        )
    student, teacher = (_law(data[side], f"{source}: [{side}]", folder) for side in ("student", "teacher"))
    made = (parameterized(kind, 1, student), fixed_teacher(kind, 2, teacher))
    parts = {key: tuple(item for each in made for item in getattr(each, key)) for key in ("parameters", "names")}
    return parts | {
        "forms": tuple(each.form for each in made),
        "centred": data.get("centred", kind != "untied"),
    }


def _general(data: Mapping[str, Any], source: str, folder: Path | None) -> dict[str, Any]:
    """Parameters, forms and traces as they are."""
    for key in ("parameters", "forms"):
        if key not in data:
            raise InputError(
                f"{source} lacks the table [{key}]; a model has parameters and forms, or the short form with [student] "
                "and [teacher]"
            )
    means = _table(data, "means", source)
    forms = _table(data, "forms", source)
    _refuse_unknown(means, forms, f"{source}: [means]")
    detached = data.get("detached", [])
    if not isinstance(detached, list) or not all(name in forms for name in detached):
        raise InputError(f"{source}: detached = {detached!r} must be a list of forms, of {', '.join(forms)}")
    return {
        "parameters": tuple(
            _parameter(name, value, f"{source}: [parameters.{name}]", folder)
            for name, value in _table(data, "parameters", source).items()
        ),
        "forms": tuple(Form(name, value, means.get(name, 0), name in detached) for name, value in forms.items()),
        "traces": tuple(Trace(name, value) for name, value in _table(data, "traces", source).items()),
        "names": tuple(_table(data, "names", source).items()),
    }


def _parameter(name: str, data: Any, where: str, folder: Path | None) -> Parameter:
    if not isinstance(data, Mapping):
        raise InputError(f"{where} = {data!r} must be a table")
    own = {key: data[key] for key in _PARAMETER if key in data and key != "law"}
    rest = {key: value for key, value in data.items() if key not in own}
    if "law" not in data:
        _refuse_unknown(data, _PARAMETER, where)
        return Parameter(name, **own)
    return Parameter(name, **own, law=_law(rest, where, folder, extra=_PARAMETER))  # type: ignore[arg-type]


def _law(data: Any, where: str, folder: Path | None, extra: tuple[str, ...] = ()) -> MatrixLaw:
    laws = law_types()
    if not isinstance(data, Mapping) or "law" not in data:
        raise InputError(f"{where} must be a table with the key 'law', one of {', '.join(laws)}")
    name = data["law"]
    if isinstance(name, Mapping):
        kind = name.get("law")
        raise InputError(
            f"{where}: law = {plain(dict(name))!r} is a table; give the law's name, law = "
            f"{kind if isinstance(kind, str) else 'wishart'!r}, and its keys beside it"
        )
    if not isinstance(name, str) or name not in laws:
        raise InputError(
            f"{where}: unknown law {name!r}{_nearest(name, laws)}; choose one of {', '.join(laws)}, or import the "
            "class of your own law first"
        )
    cls = laws[name]
    options = {key: value for key, value in data.items() if key != "law"}
    keys = (*cls.mapping_keys(), *(("file",) if "eigenvalues" in cls.mapping_keys() else ()))
    for key in options:
        if key not in keys:
            known = (*keys, *extra)
            raise InputError(
                f"{where}: law {name!r} has no key {key!r}{_nearest(key, known)}; its keys are {', '.join(keys)}"
            )
    if "file" in options:
        if "eigenvalues" in options:
            raise InputError(f"{where} has both 'eigenvalues' and 'file'; keep one of both")
        path = options.pop("file")
        if not isinstance(path, str):
            raise InputError(f"{where}: file = {path!r} must be the path of a .npy or .csv file")
        options["eigenvalues"] = read_spectrum((folder or Path()) / path)
    if "of" in options:
        options["of"] = _law(options["of"], f"{where}: of", folder).to_mapping()
    try:
        return cls.from_mapping(options)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"{where}: law {name!r} could not be built: {error}") from None


def _loss(data: Mapping[str, Any], kind: type[Loss], shape: LossShape, source: str) -> Loss:
    try:
        return kind.from_mapping(data, shape)
    except InputError as error:
        raise type(error)(f"{source}: {error}") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: loss {kind.loss_name!r} could not be built: {error}") from None


def dumps(model: AttentionModel) -> str:
    """The model as TOML text; ``loads`` gives an equal model back.

    Raises ``InputError`` for a model with free symbols: a file holds numbers.
    """
    document = tomlkit.document()
    for key, value in to_mapping(model).items():
        document.add(key, value)
    return tomlkit.dumps(document)


def to_mapping(model: AttentionModel) -> dict[str, Any]:
    """The model as the plain data of a TOML file."""
    result: dict[str, Any] = {"name": model.name} | model.loss.to_mapping()
    result |= {"weight_decay": plain(model.weight_decay), "centred": model.centred, "clock": plain(model.clock)}
    detached = [form.name for form in model.forms if form.detached]
    if detached:
        result["detached"] = detached
    result["parameters"] = {parameter.name: _parameter_mapping(parameter) for parameter in model.parameters}
    result["forms"] = {form.name: str(form.matrix) for form in model.forms}
    means = {form.name: plain(form.mean) for form in model.forms if form.mean != 0}
    optional = {
        "means": means,
        "traces": {trace.name: str(trace.matrix) for trace in model.traces},
        "names": {name: str(polynomial) for name, polynomial in model.names},
    }
    result |= {key: table for key, table in optional.items() if table}
    result["contexts"] = [_context_mapping(context) for context in model.contexts]
    return result


def _parameter_mapping(parameter: Parameter) -> dict[str, Any]:
    result: dict[str, Any] = {"rows": parameter.rows, "columns": parameter.columns}
    if parameter.law is not None:
        result |= parameter.law.to_mapping()
    result["trained"] = parameter.trained
    if parameter.symmetric:
        result["symmetric"] = True
    return result


def _context_mapping(context: Context) -> dict[str, Any]:
    result: dict[str, Any] = {"tokens": context.tokens}
    if context.token_covariance is not None:
        result["token_covariance"] = [list(row) for row in context.token_covariance]
    if context.weight != 1:
        result["weight"] = plain(context.weight)
    return result


def load(path: str | Path) -> AttentionModel:
    """Read a model file. Raises ``InputError`` when it cannot be read or is not a model."""
    return loads(read_text(path), str(path), Path(path).parent)


__all__ = ["dumps", "from_mapping", "load", "loads", "to_mapping"]
