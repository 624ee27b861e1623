"""The composite loss of a student network against a teacher network, as a function of the forms of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import sympy as sp

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.model.losses import Loss, LossShape, form_symbols, trace_symbol
from aimtheory.networks.attention_network import AttentionNetwork
from aimtheory.networks.unrolling import Path, Tape, Unrolling
from aimtheory.words import spelled_indices

_SYMBOLIC_LIMIT = 40
"""Forms of both networks beyond which the loss is not written out as one formula."""


@dataclass(frozen=True, eq=False)
class NetworkLoss(ByValue, Loss):
    """Half the squared error between the outputs of two networks, the forms of the student first.

    Read-out ``attention``: ½ Σ_ij (σ(A_M)_ij − σ*(A*_M)_ij)². Read-out ``tokens``: half the squared error a coordinate,
    (1/2d) |X_M − X*_M|², which is ½ Σ_ab s_a s_b R_ab Σ_i (A_a C A_b^T)_ii over the paths of both networks, s = 1 for
    the student and −1 for the teacher, and R_ab = tr(B_a B_b^T) explicit order parameters, named R_11, R_12, ... by the
    paths counted from 1 (1 for two identities). Exact for the first; up to O(d^{-1/2}) for the second.

    >>> loss = NetworkLoss(AttentionNetwork(heads=2), AttentionNetwork(heads=2))
    >>> loss.indices
    22
    """

    student: AttentionNetwork
    teacher: AttentionNetwork

    loss_name: ClassVar[str] = "network"

    def __post_init__(self) -> None:
        if self.student.readout != self.teacher.readout:
            raise InputError(
                f"the student reads out {self.student.readout!r} and the teacher {self.teacher.readout!r}; their "
                "outputs can be compared only when both read out the same"
            )

    @property
    def indices(self) -> int:
        """K of both networks together."""
        return self.student.count + self.teacher.count

    @cached_property
    def sides(self) -> tuple[Unrolling, Unrolling]:
        """The unrolled student and teacher."""
        return Unrolling(self.student), Unrolling(self.teacher)

    @property
    def is_composite(self) -> bool:
        """Too many forms for cubature: the population loss is an average over sampled forms."""
        return True

    def to_mapping(self) -> dict[str, Any]:
        """Both networks."""
        return {"loss": self.loss_name, "student_network": self.student.to_mapping()} | (
            {} if self.teacher == self.student else {"teacher_network": self.teacher.to_mapping()}
        )

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any], shape: LossShape) -> NetworkLoss:  # noqa: ARG003
        """Both networks; the teacher is built as the student unless it is given."""
        for key in ("student_network", "teacher_network"):
            if key in data and not isinstance(data[key], Mapping):
                raise InputError(f"{key} = {data[key]!r} must be a table")
        if "student_network" not in data:
            raise InputError("loss = 'network' lacks the table 'student_network'")
        student = AttentionNetwork.from_mapping(data["student_network"])
        teacher = AttentionNetwork.from_mapping(data["teacher_network"]) if "teacher_network" in data else student
        return cls(student, teacher)

    @classmethod
    def mapping_keys(cls) -> tuple[str, ...]:
        """The tables of both networks."""
        return ("student_network", "teacher_network")

    def latex(self, tokens: int) -> tuple[str, str]:  # noqa: ARG002
        """The squared error of the outputs."""
        if self.student.readout == "attention":
            return (
                r"\tfrac12 \bigl\| \sigma(A_M) - \sigma^{\ast}(A^{\ast}_M) \bigr\|_F^2",
                ", scores unrolled into forms",
            )
        formula = r"\tfrac12 \sum_{ab} s_a s_b R_{ab} \sum_i (A_a C A_b^{\top})_{ii}"
        return formula, ", $a$, $b$ the paths of student ($s = 1$) and teacher ($s = -1$)"

    # Explicit order parameters of the read-out of tokens.

    @cached_property
    def path_words(self) -> tuple[tuple[int, Path], ...]:
        """(side, B) of every path of the last level, the student's (side 0) first; none where attention is read out."""
        if self.student.readout == "attention":
            return ()
        return tuple((side, path) for side, unrolled in enumerate(self.sides) for path in unrolled.levels[-1])

    @cached_property
    def trace_pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of paths a <= b of which R_ab is an order parameter: all but two identities."""
        words = self.path_words
        return tuple((a, b) for a in range(len(words)) for b in range(a, len(words)) if words[a][1] or words[b][1])

    @property
    def traces(self) -> tuple[str, ...]:
        """R_ab."""
        return tuple(f"R_{spelled_indices(a, b)}" for a, b in self.trace_pairs)

    @cached_property
    def _signs(self) -> np.ndarray:
        return np.array([1.0 if side == 0 else -1.0 for side, _ in self.path_words])

    def overlaps(self, traces: Sequence[Any]) -> np.ndarray:
        """s_a s_b R_ab, numbers or symbols, (paths, paths)."""
        if len(traces) != len(self.trace_pairs):
            raise InputError(f"{len(traces)} values for the {len(self.trace_pairs)} traces of the loss")
        count = len(self.path_words)
        result = np.ones((count, count), dtype=object)
        for (a, b), value in zip(self.trace_pairs, traces, strict=True):
            result[a, b] = result[b, a] = value
        signs = [Fraction(int(sign)) for sign in self._signs]
        if any(isinstance(value, sp.Basic) for value in traces):
            signs = [sp.Integer(int(sign)) for sign in self._signs]
        return np.array(
            [[signs[a] * result[a, b] * signs[b] for b in range(count)] for a in range(count)], dtype=object
        )

    def at(self, traces: Sequence[float], covariance: np.ndarray) -> Loss:
        """The loss of the forms alone; itself when it reads no traces."""
        if not self.path_words:
            return self
        weights = self.overlaps([float(value) for value in traces]).astype(np.float64)
        return NetworkLossAt(self, weights, np.asarray(covariance, dtype=np.float64))

    def trace_gradient(self, forms: np.ndarray, traces: Sequence[float], covariance: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """(½ for a = b, else 1) s_a s_b Σ_i (A_a C A_b^T)_ii."""
        forms = self._check_forms(forms)
        if not self.traces:
            return np.zeros((*forms.shape[:-3], 0), dtype=forms.dtype)
        paths = self.last_paths(self.tapes(forms))
        gram = self.path_gram(paths, np.asarray(covariance, dtype=forms.dtype))
        columns = [
            gram[..., a, b] * forms.dtype.type(self._signs[a] * self._signs[b] * (0.5 if a == b else 1.0))
            for a, b in self.trace_pairs
        ]
        return np.stack(columns, axis=-1)

    def _uncorrelated(self, forms: np.ndarray) -> NetworkLossAt:
        """The loss of tokens read out, at C = 1, when it reads no traces."""
        if self.traces:
            raise InputError(f"this loss reads the traces {', '.join(self.traces)}: fix their values with at(...)")
        return NetworkLossAt(self, self.overlaps(()).astype(np.float64), np.eye(forms.shape[-2]))

    # Values.

    def _split(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return forms[..., : self.student.count], forms[..., self.student.count :]

    def tapes(self, forms: np.ndarray) -> tuple[Tape, Tape]:
        """The forward passes of both networks."""
        student, teacher = (side.forward(part) for side, part in zip(self.sides, self._split(forms), strict=True))
        return student, teacher

    def last_paths(self, tapes: tuple[Tape, Tape]) -> np.ndarray:
        """The A of all paths of both networks, (..., paths, L, L)."""
        return np.concatenate([tape.paths[-1] for tape in tapes], axis=-3)

    @staticmethod
    def path_gram(paths: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """Σ_i (A_a C A_b^T)_ii, (..., paths, paths)."""
        front = (*paths.shape[:-2], -1)
        return paths.reshape(front) @ np.swapaxes((paths @ covariance).reshape(front), -1, -2)

    def _residual(self, tapes: tuple[Tape, Tape]) -> np.ndarray:
        outputs = [
            network.output_map(tape.output)  # type: ignore[arg-type]
            for network, tape in zip((self.student, self.teacher), tapes, strict=True)
        ]
        return outputs[0] - outputs[1]

    def value(self, forms: np.ndarray) -> np.ndarray:
        """Half the squared norm of the difference; read-outs of tokens at C = 1, and only ``at`` values of traces."""
        if self.path_words:
            return self._uncorrelated(forms).value(forms)
        forms = self._check_forms(forms)
        residual = self._residual(self.tapes(forms))
        return np.asarray(0.5 * np.einsum("...ij,...ij->...", residual, residual))

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The difference pulled back through both networks."""
        return self.value_and_gradient(forms)[1]

    def value_and_gradient(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both of one forward pass."""
        if self.path_words:
            return self._uncorrelated(forms).value_and_gradient(forms)
        forms = self._check_forms(forms)
        tapes = self.tapes(forms)
        residual = self._residual(tapes)
        parts = []
        networks = (self.student, self.teacher)
        for side, part, tape, network, sign in zip(
            self.sides, self._split(forms), tapes, networks, (1.0, -1.0), strict=True
        ):
            assert tape.output is not None
            cotangent = network.output_map.vector_jacobian(tape.output, forms.dtype.type(sign) * residual)
            parts.append(side.backward(part, tape, cotangent))
        value = np.asarray(0.5 * np.einsum("...ij,...ij->...", residual, residual))
        return value, np.concatenate(parts, axis=-1)

    def expression(self, tokens: int) -> sp.Expr:
        """The loss in the forms at C = 1, and the symbols of the traces; ``InputError`` for more than 40 forms."""
        return self.expression_at(tokens, [trace_symbol(name) for name in self.traces], sp.eye(tokens))

    def expression_at(self, tokens: int, traces: Sequence[Any], covariance: sp.Matrix) -> sp.Expr:
        """The loss at values of the traces and a token covariance."""
        if self.indices > _SYMBOLIC_LIMIT:
            raise InputError(
                f"the loss of {self.indices} forms is not written out (at most {_SYMBOLIC_LIMIT}); it is evaluated by "
                "value and gradient"
            )
        symbols = [form_symbols(tokens, k) for k in range(self.indices)]
        first = self.student.count
        parts = (symbols[:first], symbols[first:])
        found = [side.expressions(part) for side, part in zip(self.sides, parts, strict=True)]
        if self.path_words:
            paths = [*found[0][0], *found[1][0]]
            weights = self.overlaps(traces)
            count = len(paths)
            return (
                sp.Add(
                    *(
                        sp.sympify(weights[a, b]) * (paths[a] * covariance * paths[b].T).trace()
                        for a in range(count)
                        for b in range(count)
                    )
                )
                / 2
            )
        outputs = [
            network.output_map.expression(score)
            for network, (_, score) in zip((self.student, self.teacher), found, strict=True)
        ]
        return sp.Add(*[entry**2 for entry in outputs[0] - outputs[1]]) / 2


@dataclass(frozen=True, eq=False)
class NetworkLossAt(ByValue, Loss):
    """A ``NetworkLoss`` of read-out ``tokens`` at fixed overlaps of its paths and a token covariance."""

    loss: NetworkLoss
    weights: np.ndarray
    covariance: np.ndarray

    @property
    def name(self) -> str:
        """That of the loss."""
        return self.loss.name

    @property
    def indices(self) -> int:
        """K."""
        return self.loss.indices

    @property
    def is_composite(self) -> bool:
        """As the loss."""
        return True

    def to_mapping(self) -> dict[str, Any]:
        """A loss at fixed traces is not stored."""
        raise InputError("a loss at fixed values of its traces has no file form; store the NetworkLoss")

    def value(self, forms: np.ndarray) -> np.ndarray:
        """½ Σ_ab s_a s_b R_ab Σ_i (A_a C A_b^T)_ii."""
        return self.value_and_gradient(forms)[0]

    def gradient(self, forms: np.ndarray) -> np.ndarray:
        """The mixed paths pulled back through both networks."""
        return self.value_and_gradient(forms)[1]

    def value_and_gradient(self, forms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Both of one forward pass."""
        forms = self._check_forms(forms)
        tapes = self.loss.tapes(forms)
        paths = self.loss.last_paths(tapes)
        weights = self.weights.astype(forms.dtype)
        flat = (paths @ self.covariance.astype(forms.dtype)).reshape(*paths.shape[:-2], -1)
        mixed = (weights @ flat).reshape(paths.shape)
        value = np.asarray(0.5 * np.einsum("...pij,...pij->...", paths, mixed))
        first = tapes[0].paths[-1].shape[-3]
        cotangents = (mixed[..., :first, :, :], mixed[..., first:, :, :])
        student, teacher = self.loss._split(forms)
        parts = [
            side.backward(part, tape, cotangent)
            for side, part, tape, cotangent in zip(self.loss.sides, (student, teacher), tapes, cotangents, strict=True)
        ]
        return value, np.concatenate(parts, axis=-1)

    def expression(self, tokens: int) -> sp.Expr:
        """The formula with the values in it."""
        pairs = self.loss.trace_pairs
        signs = [1 if side == 0 else -1 for side, _ in self.loss.path_words]
        values = [sp.Float(self.weights[a, b] * signs[a] * signs[b]) for a, b in pairs]
        return self.loss.expression_at(tokens, values, sp.Matrix(self.covariance))


__all__ = ["NetworkLoss", "NetworkLossAt"]
