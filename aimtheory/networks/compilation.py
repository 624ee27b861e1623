"""Networks compiled into parameters and forms, and run forward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aimtheory.errors import InputError
from aimtheory.frozen import Uncached
from aimtheory.model import Form, Parameter
from aimtheory.networks.architecture import FORM_LIMIT, Architecture
from aimtheory.networks.forward import checked_tokens, forward
from aimtheory.networks.parameters import effective_matrix, network_parameters
from aimtheory.networks.unrolling import Unrolling
from aimtheory.spectra import InitialLaw, MatrixLaw


@dataclass(frozen=True)
class CompiledNetwork(Uncached):
    """One network as words: its parameters, and its effective matrices B_p S B_q^T as forms, K of them.

    >>> compiled = compile_network(Architecture(layers=1, heads=1))
    >>> [str(form.matrix) for form in compiled.forms][:3]
    ['K11 Q11^T', 'K21 Q21^T', 'K21 Q21^T V11^T']
    """

    network: Architecture
    parameters: tuple[Parameter, ...]
    forms: tuple[Form, ...]
    tag: str = ""

    def forward(self, X: np.ndarray, parameters: Mapping[str, np.ndarray], **options: Any) -> np.ndarray:
        """The direct forward pass; see :func:`forward_pass`."""
        return forward_pass(self.network, X, parameters, tag=self.tag, **options)

    def unrolled(self, forms: np.ndarray) -> np.ndarray:
        """The same output from the forms (..., L, L, K): the attention of the read-out, or the A of every path."""
        tape = Unrolling(self.network).forward(np.asarray(forms))
        return tape.paths[-1] if tape.output is None else self.network.output_map(tape.output)

    def __str__(self) -> str:
        lines = [str(self.network), *(f"  {form.name} = {form.matrix}" for form in self.forms[:12])]
        return "\n".join([*lines, *([f"  ... and {len(self.forms) - 12} more"] if len(self.forms) > 12 else [])])


def compile_network(
    network: Architecture,
    attention_law: MatrixLaw | None = None,
    value_law: InitialLaw | None = None,
    *,
    trained: bool = True,
    tag: str = "",
    first: int = 1,
    limit: int = FORM_LIMIT,
) -> CompiledNetwork:
    """Parameters and forms of one network; forms are named S1, S2, ... from ``first``.

    Order: layer by layer, head by head, then the paths (p, q) in rows; the read-out last. The number of forms is
    ``network.count``, known and checked against ``limit`` before anything is built (``InputError`` with the counts).
    """
    network.check_size(limit)
    parameters = network_parameters(network, attention_law, value_law, trained=trained, tag=tag)
    forms = tuple(
        Form(f"S{first + n}", effective_matrix(network, matrix, left, right, tag))
        for n, (matrix, left, right) in enumerate(Unrolling(network).effective_matrices())
    )
    return CompiledNetwork(network, parameters, forms, tag)


def forward_pass(
    network: Architecture,
    X: np.ndarray,
    parameters: Mapping[str, np.ndarray],
    *,
    covariance: np.ndarray | None = None,
    tag: str = "",
) -> np.ndarray:
    """The output of a network at tokens X (..., L, d): a map (..., L, L), or the tokens (..., L, d).

    ``parameters`` are matrices by name as :func:`compile_network` names them. With ``covariance`` C the forms are
    centred, as those of tied attention must be to have a limit. Exact at every d. Raises ``InputError`` for a missing
    matrix or tokens of another dimension.

    >>> rng = np.random.default_rng(0)
    >>> network = Architecture()
    >>> matrices = {name: rng.normal(size=(5, 5)) for name in ("K11", "Q11", "K21", "Q21", "V11")}
    >>> forward_pass(network, rng.normal(size=(3, 5)), matrices).sum(axis=-1).round(12)
    array([1., 1., 1.])
    """
    needed = [parameter.name for parameter in network_parameters(network, tag=tag)]
    missing = [name for name in needed if name not in parameters]
    if missing:
        raise InputError(f"the matrix {missing[0]} is missing; the network has {', '.join(needed)}")
    return forward(
        network, checked_tokens(X, parameters[needed[0]].shape[0]), parameters, covariance=covariance, tag=tag
    )


__all__ = ["CompiledNetwork", "compile_network", "forward_pass"]
