"""Couplings: the scalars that multiply words in the SGD drift, functions of the order parameters alone."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from aimtheory.words import spelled_indices


@dataclass(frozen=True, order=True)
class Coupling:
    """One scalar coefficient of the drift.

    ``kind`` is ``"gradient"`` for g_kl = [grad Phi]_kl when every S_k is symmetric; ``"gradient_transposed"`` and
    ``"gradient_plain"`` for g1_kl and g2_kl, the gradients by q1_kl = tr(S_k S_l^T) and q2_kl = tr(S_k S_l); ``"bias"``
    for beta_k = sqrt(d) dPhi/dm_k, of order one on the slow time scale; ``"trace"`` for dPhi/dR by the explicit order
    parameter called ``trace``; ``"decay"`` for the weight decay gamma. Indices are 0-based, names 1-based; k <= l.
    """

    kind: str
    k: int = -1
    l: int = -1
    trace: str = ""

    @classmethod
    def gradient(cls, kind: str, k: int, l: int) -> Coupling:
        """The gradient coupling of an unordered pair of indices: g_kl = g_lk is one symbol."""
        return cls(kind, min(k, l), max(k, l))

    @property
    def name(self) -> str:
        """Plain name: g_12, g1_12, g2_12, beta_1, dPhi_R_11, gamma."""
        pair = spelled_indices(self.k, self.l)
        return {
            "gradient": f"g_{pair}",
            "gradient_transposed": f"g1_{pair}",
            "gradient_plain": f"g2_{pair}",
            "bias": f"beta_{self.k + 1}",
            "trace": f"dPhi_{self.trace}",
            "decay": "gamma",
        }[self.kind]

    @property
    def symbol(self) -> sp.Symbol:
        """The coupling as a real sympy symbol."""
        return sp.Symbol(self.name, real=True)

    @property
    def latex(self) -> str:
        """LaTeX in the notation of the source: a component of the gradient of Phi, beta_k, gamma."""
        pair = spelled_indices(self.k, self.l)
        return {
            "gradient": rf"[\nabla\Phi]_{{{pair}}}",
            "gradient_transposed": rf"[\nabla_{{q^{{(1)}}}}\Phi]_{{{pair}}}",
            "gradient_plain": rf"[\nabla_{{q^{{(2)}}}}\Phi]_{{{pair}}}",
            "bias": rf"\beta_{{{self.k + 1}}}",
            "trace": rf"\partial_{{{name_latex(self.trace)}}}\Phi",
            "decay": r"\gamma",
        }[self.kind]


def name_latex(name: str) -> str:
    """A name such as R_12 with its index as a subscript."""
    head, _, tail = name.partition("_")
    return f"{head}_{{{tail.replace('_', '')}}}" if tail else head


__all__ = ["Coupling", "name_latex"]
