"""The attention-indexed model: what is learned, from what, and how its matrices are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from aimtheory.errors import AssumptionError, InputError
from aimtheory.frozen import Uncached
from aimtheory.model.factorization import (
    KINDS,
    Factorization,
    default_centred,
    direct,
    factorization,
    sample_parameters,
    time_factor,
)
from aimtheory.model.token_covariance import validate_token_covariance
from aimtheory.scalars import Scalar, to_scalar
from aimtheory.spectra import Empirical, Ginibre, SpectralLaw
from aimtheory.words import Letter

if TYPE_CHECKING:
    from aimtheory.model.activations import Activation
    from aimtheory.model.losses import Loss


@dataclass(frozen=True)
class AttentionIndex:
    """One index k: the factorization of S_k, the law of its initial value, and whether SGD trains it.

    ``frozen`` names parameter letters of a trainable index that stay as they are, such as the S0 of ``S0 + U V^T``.
    The loss is not differentiated through an index that is not trainable, even when it shares a letter with one that
    is.
    """

    factorization: Factorization
    law: object
    trainable: bool
    frozen: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [letter.name for letter in self.factorization.letters]
        for name in self.frozen:
            if name not in names:
                raise InputError(
                    f"frozen letter {name!r} is not a letter of {self.factorization.name}: {', '.join(names)}"
                )

    @property
    def trained_letters(self) -> tuple[Letter, ...]:
        """The parameter letters that SGD moves."""
        return tuple(x for x in self.factorization.letters if self.trainable and x.name not in self.frozen)


@dataclass(frozen=True)
class AttentionModel(Uncached):
    """An attention-indexed model: the one input of theory and simulation alike ([D] section 2).

    Tokens x_1..x_L are Gaussian, E[x_ia x_jb] = C_ij delta_ab with C the L x L ``token_covariance`` (the identity
    when None). The loss is a function of the forms G_ijk = x_i^T S_k x_j / sqrt(d), centred (C_ij Tr S_k / sqrt(d)
    taken off) when ``centred``. S_k is a polynomial in parameter letters, ``indices[k].factorization``; only
    trainable indices move, under online SGD with weight decay ``weight_decay`` (gamma). Time is t = n x time_factor x
    learning_rate / d after n steps (factor 4 for tied attention).

    Raises ``InputError`` for values out of range and ``AssumptionError`` when an assumption of the theory is broken,
    for instance forms with a diverging mean.

    >>> import aimtheory as aim
    >>> model = aim.AttentionModel.teacher_student(tokens=2, activation="softmax", parameterization="tied",
    ...     student=aim.Wishart(width=1, trace=1), teacher=aim.Wishart(width=1, trace=1))
    >>> model.indices[0].trainable, model.centred, model.time_factor
    (True, True, Fraction(4, 1))
    """

    tokens: int
    indices: tuple[AttentionIndex, ...]
    loss: Loss
    token_covariance: tuple[tuple[float, ...], ...] | None = None
    weight_decay: Scalar = Fraction(0)
    centred: bool = True
    name: str = field(default="model", compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, int) or self.tokens < 1:
            raise InputError(f"tokens = {self.tokens!r} must be an integer of at least 1")
        if not self.indices:
            raise InputError("a model needs at least one index; give a student, and a teacher for it to learn from")
        names = [index.factorization.name for index in self.indices]
        if len(set(names)) != len(names):
            raise InputError(f"indices share a name: {', '.join(names)}; every S_k needs its own")
        if self.token_covariance is not None:
            matrix = validate_token_covariance(self.token_covariance, self.tokens)
            frozen = None if np.array_equal(matrix, np.eye(self.tokens)) else tuple(map(tuple, matrix.tolist()))
            object.__setattr__(self, "token_covariance", frozen)
        decay = to_scalar(self.weight_decay, "weight_decay")
        if isinstance(decay, Fraction | float) and decay < 0:
            raise InputError(f"weight_decay = {decay} must be at least 0")
        object.__setattr__(self, "weight_decay", decay)
        if self.loss.indices != len(self.indices):
            raise InputError(
                f"the loss reads {self.loss.indices} indices but the model has {len(self.indices)}; they must agree"
            )
        if self.loss.tokens is not None and self.loss.tokens != self.tokens:
            raise InputError(f"the loss is written for {self.loss.tokens} tokens but the model has {self.tokens}")
        for index in self.indices:
            if isinstance(index.law, Empirical):
                index.law.check_extensive_rank()
        self._check_means()

    def _check_means(self) -> None:
        if self.centred:
            return
        for index in self.indices:
            form = index.factorization
            if form.kind not in KINDS and any(word == word.T for word, _ in form.polynomial):
                raise AssumptionError(
                    f"{form.name} = {form.polynomial} has a term that is its own transpose, so Tr S = Theta(d) and the "
                    "uncentred form has a mean that diverges like sqrt(d) (Assumption 1.2 of Theorem 1): use "
                    "centred=True"
                )
            mean = getattr(index.law, "mean", None)
            if index.factorization.kind == "tied" or (isinstance(index.law, SpectralLaw) and mean != 0):
                raise AssumptionError(
                    f"{index.factorization.name} has Tr S = Theta(d), so the uncentred form x_i^T S x_j / sqrt(d) "
                    "has a mean that diverges like sqrt(d) (Assumption 1.2 of Theorem 1 asks for a finite limit): "
                    "use centred=True"
                )

    @classmethod
    def teacher_student(
        cls,
        *,
        tokens: int,
        activation: str | Activation,
        parameterization: str,
        student: object,
        teacher: object,
        loss: str = "mse",
        teacher_activation: str | Activation | None = None,
        inverse_temperature: float = 1.0,
        token_covariance: object = None,
        weight_decay: object = 0,
        centred: bool | None = None,
        name: str = "teacher-student",
    ) -> AttentionModel:
        """One student S_1 trained on the labels of one fixed teacher S_2.

        ``activation`` acts on both sides unless ``teacher_activation`` is given; ``loss`` is ``"mse"`` (half the sum
        of squares over all outputs) or ``"cross_entropy"`` (softmax). ``student`` and ``teacher`` are laws. The
        parameterization is that of the student; the teacher, which does not move, is factored the same way when its
        law allows it.
        """
        from aimtheory.model.activations import activation as named_activation
        from aimtheory.model.losses import CrossEntropy, MeanSquaredError

        def read(value: str | Activation) -> Activation:
            if not isinstance(value, str):
                return value
            options = {"inverse_temperature": inverse_temperature} if value == "softmax" else {}
            return named_activation(value, **options)

        first = read(activation)
        second = first if teacher_activation is None else read(teacher_activation)
        losses = {"mse": MeanSquaredError, "cross_entropy": CrossEntropy}
        if loss not in losses:
            raise InputError(
                f"unknown loss {loss!r}; choose one of {', '.join(losses)}, or pass your own to AttentionModel"
            )
        return cls(
            tokens=tokens,
            indices=(
                AttentionIndex(factorization(parameterization, 0), student, True),
                AttentionIndex(teacher_factorization(parameterization, 1, teacher), teacher, False),
            ),
            loss=losses[loss](first, second),
            token_covariance=token_covariance,  # type: ignore[arg-type]
            weight_decay=to_scalar(weight_decay, "weight_decay"),
            centred=default_centred(parameterization) if centred is None else centred,
            name=name,
        )

    @property
    def trainable(self) -> tuple[bool, ...]:
        """Which indices SGD moves."""
        return tuple(index.trainable for index in self.indices)

    @cached_property
    def time_factor(self) -> Fraction:
        """t = n x time_factor x learning_rate / d: 4 when every trained index is tied ([D] section 3.1), else 1."""
        factors = {time_factor(index.factorization.kind) for index in self.indices if index.trainable}
        return factors.pop() if len(factors) == 1 else Fraction(1)

    @property
    def covariance_matrix(self) -> np.ndarray:
        """The token covariance C as an L x L array."""
        return np.eye(self.tokens) if self.token_covariance is None else np.array(self.token_covariance)

    def sample(self, dim: int, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], ...]:
        """Initial parameter matrices at dimension ``dim``, one dictionary an index, independent across indices."""
        if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 2:
            raise InputError(f"dim = {dim!r} must be an integer of at least 2")
        return tuple(sample_parameters(index.factorization, index.law, int(dim), rng) for index in self.indices)

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{index.factorization.name} = {index.factorization.polynomial} "
            f"({'trained' if index.trainable else 'fixed'}, {index.law!r})"
            for index in self.indices
        )
        covariance = "identity" if self.token_covariance is None else "given"
        return (
            f"AttentionModel(tokens={self.tokens}, {parts}, loss={self.loss!r}, token_covariance={covariance}, "
            f"weight_decay={self.weight_decay}, centred={self.centred})"
        )


def teacher_factorization(parameterization: str, index: int, law: object) -> Factorization:
    """The factorization of a fixed teacher: that of the student where its law allows it, else the matrix itself."""
    if isinstance(law, Ginibre):
        return direct(index, name="M" if parameterization == "untied" else "S")
    if isinstance(law, SpectralLaw) and not (parameterization == "tied" and _is_positive(law)):
        return direct(index, name="M" if parameterization == "untied" else "S", symmetric=True)
    return factorization(parameterization, index)


def _is_positive(law: SpectralLaw) -> bool:
    try:
        return law.support[0][0] >= 0
    except InputError:  # symbolic parameters: only the Wishart family takes them, and it is positive
        return True


__all__ = ["AttentionIndex", "AttentionModel", "teacher_factorization"]
