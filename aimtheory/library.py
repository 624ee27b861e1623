"""Built-in models by name, and the one way to turn a name or a file into a model."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from aimtheory import networks as networks  # a file may name its losses
from aimtheory.errors import InputError
from aimtheory.model import toml
from aimtheory.model.attention_model import AttentionModel
from aimtheory.model.context import Context
from aimtheory.model.form import Trace
from aimtheory.model.losses import ExpressionLoss
from aimtheory.model.parameter import Parameter
from aimtheory.model.parameterization import tied
from aimtheory.model.value_loss import ValueLoss
from aimtheory.spectra import GaussianFactors, Ginibre, Wishart


def _exact_linear() -> AttentionModel:
    """L = 1, loss (G_1 - G_2)^2, S_1 = MP(c=1)/2, S_2 = MP(c=1/2): the exactly solvable case of [D] D.3."""
    student, teacher = (
        tied(1, Wishart(width=1, trace=Fraction(1, 2))),
        tied(2, Wishart(width=2, trace=1), trained=False),
    )
    return AttentionModel(
        parameters=(*student.parameters, *teacher.parameters),
        forms=(student.form, teacher.form),
        contexts=(Context(1),),
        loss=ExpressionLoss("(G[0, 0, 0] - G[0, 0, 1])**2", tokens=1, indices=2),
        name="exact-linear",
    )


def _tied_softmax_values() -> AttentionModel:
    """Queries, keys and values learned together: y_i = sum_j softmax(X S X^T/sqrt d)_ij V^T x_j, S and V trained."""
    return AttentionModel.of(
        tied(1, Wishart(width=1, trace=1)),
        tied(2, Wishart(width=1, trace=1), trained=False),
        parameters=(Parameter("V1", law=Ginibre(variance=1)), Parameter("V2", law=Ginibre(variance=1), trained=False)),
        traces=(Trace("R_11", "V1^T V1"), Trace("R_12", "V1^T V2"), Trace("R_22", "V2^T V2")),
        contexts=(Context(2),),
        loss=ValueLoss("softmax"),
        name="tied-softmax-values",
    )


def _tied(activation: str, tokens: int) -> AttentionModel:
    return AttentionModel.teacher_student(
        tokens=tokens,
        activation=activation,
        parameterization="tied",
        student=Wishart(width=1, trace=1),
        teacher=Wishart(width=1, trace=1),
        name=f"tied-{activation}",
    )


def _untied(activation: str) -> AttentionModel:
    return AttentionModel.teacher_student(
        tokens=1,
        activation=activation,
        parameterization="untied",
        student=GaussianFactors(width=1, left=1, right=Fraction(1, 2)),
        teacher=Ginibre(variance=1),
        name=f"untied-{activation}",
    )


def _direct(activation: str) -> AttentionModel:
    return AttentionModel.teacher_student(
        tokens=1,
        activation=activation,
        parameterization="direct",
        student=Ginibre(variance=1),
        teacher=Ginibre(variance=1),
        name=f"direct-{activation}",
    )


BUILT_IN: dict[str, Callable[[], AttentionModel]] = {
    "exact-linear": _exact_linear,
    "tied-softmax": lambda: _tied("softmax", 2),
    "tied-softmax-values": _tied_softmax_values,
    "tied-linear": lambda: _tied("linear", 1),
    "tied-hermite2": lambda: _tied("hermite2", 1),
    "tied-hermite3": lambda: _tied("hermite3", 1),
    "tied-erf": lambda: _tied("erf", 1),
    "untied-linear": lambda: _untied("linear"),
    "untied-hermite2": lambda: _untied("hermite2"),
    "untied-hermite3": lambda: _untied("hermite3"),
    "direct-linear": lambda: _direct("linear"),
    "direct-hermite2": lambda: _direct("hermite2"),
    "direct-hermite3": lambda: _direct("hermite3"),
}
"""Constructors of the built-in models, by name."""


def names() -> tuple[str, ...]:
    """Names of the built-in models."""
    return tuple(BUILT_IN)


def load(name_or_path: str | Path) -> AttentionModel:
    """A built-in model by name, or a model from a TOML file.

    Raises ``InputError`` when it is neither, naming the nearest built-in.

    >>> load("tied-softmax").tokens
    2
    """
    key = str(name_or_path)
    if key in BUILT_IN:
        return BUILT_IN[key]()
    if os.path.exists(key):  # asks, and does not raise: the name may be no possible path at all
        return toml.load(key)
    close = difflib.get_close_matches(key, BUILT_IN, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    shown = repr(key) if len(key) <= 100 else f"{key[:100]!r}..."
    raise InputError(f"no model {shown}: it is neither a file nor one of {', '.join(BUILT_IN)}{hint}")


__all__ = ["BUILT_IN", "load", "names"]
