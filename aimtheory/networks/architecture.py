"""The architecture of an attention network: layers, heads, masks, values and read-out of a stack, and its counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from aimtheory.errors import InputError
from aimtheory.frozen import ByValue
from aimtheory.model.activations import Activation, activation
from aimtheory.model.parameterization import PARAMETERIZATIONS
from aimtheory.networks.attention_map import AttentionMap, checked_mask

READOUTS = ("attention", "tokens")
"""What a network gives: the map sigma(X_M S_M X_M^T / sqrt d) of a last attention matrix, or the tokens X_M."""

FORM_LIMIT = 20_000
"""Effective matrices beyond which a network is refused: their overlaps alone would fill a large machine."""


@dataclass(frozen=True, eq=False, init=False)
class Architecture(ByValue):
    """A stack of M ``layers`` of H ``heads`` each, (50)-(53) of [D], tokens as rows of X_0 = X (L x d), m = 1..M:

        A_m^h = X_{m-1} S_{m-1}^h X_{m-1}^T / sqrt(d),
        X_m = X_{m-1} + sum_h F(A_m^h) X_{m-1} V_{m-1}^h,

    S = W W^T (``tied``), K Q^T (``untied``) or S itself (``direct``), d x d of extensive rank; F is ``attention``, the
    row softmax or any elementwise function, behind a ``mask``: None, ``"causal"``, or rows of 0 and 1 that say which
    token sees which. Without ``residual`` X_{m-1} is not added; without ``values`` every V is the identity. The
    ``readout`` is ``"attention"``, y = ``output``(X_M S_M X_M^T / sqrt d) with one more attention matrix, or
    ``"tokens"``, y = X_M.

    No positional encoding, no layer norm, no MLP. Raises ``InputError`` for counts below one, a mask that hides every
    token from one of them, and names that do not exist.

    >>> network = Architecture(layers=2, heads=2)
    >>> network.count, network.paths(2)
    (101, 9)
    """

    layers: int
    heads: int
    attention: Activation
    residual: bool
    mask: str | tuple[tuple[int, ...], ...] | None
    values: bool
    parameterization: str
    readout: str
    output: Activation

    def __init__(
        self,
        layers: int = 1,
        heads: int = 1,
        attention: Activation | str = "softmax",
        *,
        residual: bool = True,
        mask: str | Sequence[Sequence[int]] | None = None,
        values: bool = True,
        parameterization: str = "untied",
        readout: str = "attention",
        output: Activation | str | None = None,
    ) -> None:
        put = object.__setattr__
        put(self, "layers", _count(layers, "layers"))
        put(self, "heads", _count(heads, "heads"))
        put(self, "attention", activation(attention))
        for name, flag in (("residual", residual), ("values", values)):
            if not isinstance(flag, bool):
                raise InputError(f"{name} = {flag!r} of a network must be True or False")
            put(self, name, flag)
        put(self, "mask", checked_mask(mask))
        for name, value, allowed in (
            ("parameterization", parameterization, tuple(PARAMETERIZATIONS)),
            ("readout", readout, READOUTS),
        ):
            if value not in allowed:
                raise InputError(f"{name} = {value!r} of a network; choose one of {', '.join(allowed)}")
            put(self, name, value)
        put(self, "output", self.attention if output is None else activation(output))
        if self.readout == "tokens" and output is not None:
            raise InputError(f"output = {self.output.name!r} belongs to readout = 'attention'; leave it out")

    # Counts, known before anything is built.

    def paths(self, level: int) -> int:
        """Terms A X_0 B of X_m with different B: (1 + H)^m; H^m without the residual stream, 1 without values."""
        if not self.values:
            return 1
        return int((self.heads + self.residual) ** level)

    @property
    def counts(self) -> tuple[int, ...]:
        """Effective matrices B_p S B_q^T of each layer, all heads together, and of the read-out."""
        per_layer = tuple(self.heads * self.paths(level) ** 2 for level in range(self.layers))
        return (*per_layer, self.paths(self.layers) ** 2) if self.readout == "attention" else per_layer

    @property
    def count(self) -> int:
        """K, the number of forms: H sum_{m<M} (1+H)^{2m} + (1+H)^{2M} with everything switched on."""
        return sum(self.counts)

    def check_size(self, limit: int = FORM_LIMIT) -> None:
        """``InputError`` with the counts when there are more forms than ``limit``."""
        if self.count > limit:
            shown = " + ".join(map(str, self.counts))
            raise InputError(
                f"{self.layers} layers of {self.heads} heads have {self.count} effective matrices ({shown} by layer"
                f"{' and read-out' if self.readout == 'attention' else ''}), more than {limit}; take fewer layers or "
                "heads, values=False (one path), or residual=False"
            )

    @property
    def attention_map(self) -> AttentionMap:
        """F behind the mask."""
        return AttentionMap(self.attention, self.mask)

    @property
    def output_map(self) -> AttentionMap:
        """The function of the read-out, behind the same mask."""
        return AttentionMap(self.output, self.mask)

    def matrices(self) -> tuple[tuple[int, int], ...]:
        """(level, head) of every attention matrix, the read-out last as (M, 0)."""
        found = [(level, head) for level in range(self.layers) for head in range(self.heads)]
        return (*found, (self.layers, 0)) if self.readout == "attention" else tuple(found)

    def to_mapping(self) -> dict[str, Any]:
        """The network as plain data; :meth:`from_mapping` reads it."""
        result: dict[str, Any] = {"layers": self.layers, "heads": self.heads}
        result |= _function(self.attention, "attention")
        if self.readout == "attention" and self.output != self.attention:
            result |= _function(self.output, "output")
        if self.mask is not None:
            result["mask"] = self.mask if isinstance(self.mask, str) else [list(row) for row in self.mask]
        return result | {name: getattr(self, name) for name in ("residual", "values", "parameterization", "readout")}

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """The network of plain data; ``InputError`` names the key that is unknown or wrong."""
        known = ("layers", "heads", "attention", "output", "mask", "residual", "values", "parameterization", "readout")
        for key in data:
            if key not in (*known, "attention_parameters", "output_parameters"):
                raise InputError(f"a network has no key {key!r}; its keys are {', '.join(known)}")
        options = {key: data[key] for key in known if key in data}
        for key in ("attention", "output"):
            if key in options:
                options[key] = activation(options[key], **data.get(f"{key}_parameters", {}))
        return cls(**options)

    def __str__(self) -> str:
        lines = [f"{self.layers} layers, {self.heads} heads, {self.parameterization}: {self.count} effective matrices"]
        for level, count in enumerate(self.counts):
            readout = level == self.layers
            what = "read-out" if readout else f"layer {level + 1}"
            each = "" if readout else f", {count // self.heads} a head"
            lines.append(f"  {what}: {count}{each} ({self.paths(level)} paths)")
        return "\n".join(lines)


def _function(function: Activation, name: str) -> dict[str, Any]:
    from aimtheory.spectra import plain

    options = {key: plain(value) for key, value in function.parameters.items()}
    return {name: function.name} | ({f"{name}_parameters": options} if options else {})


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name} = {value!r} of a network must be an integer of at least 1")
    return value


__all__ = ["FORM_LIMIT", "READOUTS", "Architecture"]
