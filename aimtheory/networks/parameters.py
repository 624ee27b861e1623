"""The parameters of a network: their names, spaces and laws, and the effective matrices as words in them."""

from __future__ import annotations

from aimtheory.errors import InputError
from aimtheory.model import Parameter, direct, tied, untied
from aimtheory.networks.architecture import Architecture
from aimtheory.networks.unrolling import Path
from aimtheory.spectra import InitialLaw, MatrixLaw
from aimtheory.words import Letter, Polynomial


def _place(level: int, head: int) -> str:
    """Layer and head counted from 1: ``12``, or ``10_3`` where either has two digits."""
    layer, number = level + 1, head + 1
    return f"{layer}{number}" if max(layer, number) < 10 else f"{layer}_{number}"


def value_name(level: int, head: int, tag: str = "") -> str:
    """The name of V of a head."""
    return f"V{tag}{_place(level, head)}"


def attention_factors(network: Architecture, level: int, head: int, tag: str = "") -> list[tuple[str, str]]:
    """(name, columns) of the factors of S: W; K and Q; or S itself."""
    place = _place(level, head)
    inner = f"r{tag}{place}"
    if network.parameterization == "tied":
        return [(f"W{tag}{place}", inner)]
    if network.parameterization == "untied":
        return [(f"K{tag}{place}", inner), (f"Q{tag}{place}", inner)]
    return [(f"S{tag}{place}", "d")]


def _laws(network: Architecture, law: MatrixLaw | None) -> list[InitialLaw | None]:
    """The laws of the factors of an attention matrix of that law; ``InputError`` where it does not fit."""
    make = {"tied": tied, "untied": untied, "direct": direct}[network.parameterization]
    return [parameter.law for parameter in make(1, law).parameters]


def network_parameters(
    network: Architecture,
    attention_law: MatrixLaw | None = None,
    value_law: InitialLaw | None = None,
    *,
    trained: bool = True,
    tag: str = "",
) -> tuple[Parameter, ...]:
    """All parameters: the factors of every S, of ``attention_law``, and every V, of ``value_law``; independent.

    Named W11, V11, ... (layer, head; the read-out is layer M+1), with ``tag`` after the letter.
    """
    if value_law is not None and not network.values:
        raise InputError(f"value_law = {value_law!r} is given, but the network has no values; leave it out")
    laws = _laws(network, attention_law)
    found = [
        Parameter(name, columns=columns, law=law, trained=trained)
        for level, head in network.matrices()
        for (name, columns), law in zip(attention_factors(network, level, head, tag), laws, strict=True)
    ]
    if network.values:
        found += [
            Parameter(value_name(level, head, tag), law=value_law, trained=trained)
            for level in range(network.layers)
            for head in range(network.heads)
        ]
    return tuple(found)


def path_letters(path: Path, tag: str = "") -> list[Letter]:
    """B of a path, from the left."""
    return [Letter(value_name(level, head, tag)) for level, head in path]


def effective_matrix(
    network: Architecture, matrix: tuple[int, int], left: Path, right: Path, tag: str = ""
) -> Polynomial:
    """B_p S B_q^T as a word."""
    factors = [Letter(name, "d", columns) for name, columns in attention_factors(network, *matrix, tag)]
    inner = factors if network.parameterization == "direct" else [factors[0], factors[-1].T]
    back = [letter.T for letter in reversed(path_letters(right, tag))]
    return Polynomial.word(*path_letters(left, tag), *inner, *back)


__all__ = ["attention_factors", "effective_matrix", "network_parameters", "path_letters", "value_name"]
