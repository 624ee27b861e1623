"""The errors that aimtheory raises: each names the offending thing, its value, the allowed range and the next step."""

from __future__ import annotations


class AimTheoryError(Exception):
    """Base class, so that one ``except`` catches everything the package raises on purpose."""


class InputError(AimTheoryError, ValueError):
    """An argument or a file is outside what is allowed; the message names it, its value and the range."""


class AssumptionError(InputError):
    """The input is well formed but breaks an assumption of the theory; the message says which one."""


class NumericsError(AimTheoryError, ArithmeticError):
    """A computation could not be brought to the accuracy asked for, or met a NaN or an infinity."""


__all__ = ["AimTheoryError", "AssumptionError", "InputError", "NumericsError"]
