"""The record of a model: the plain data of its file, every number exact."""

from __future__ import annotations

from typing import Any

from aimtheory.model import toml
from aimtheory.model.attention_model import AttentionModel
from aimtheory.records import register


def model_summary(model: AttentionModel) -> dict[str, Any]:
    """What a result says of its model: ``model`` (its name), ``model_toml`` (the file) and ``clock``."""
    return {"model": model.name, "model_toml": toml.dumps(model), "clock": float(model.clock)}


register(
    "model",
    AttentionModel,
    lambda model: {"mapping": toml.to_mapping(model)},
    lambda values: toml.from_mapping(values["mapping"], "the model of the record"),
)

__all__ = ["model_summary"]
