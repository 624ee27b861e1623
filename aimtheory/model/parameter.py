"""Parameters: the matrices that are trained or fixed, each with its shape and its law at time zero."""

from __future__ import annotations

from dataclasses import dataclass

from aimtheory.errors import InputError
from aimtheory.spectra import InitialLaw
from aimtheory.spectra.law_checks import is_matrix_law, is_parameter_law
from aimtheory.words import EMBEDDING, SCALARS, Letter


@dataclass(frozen=True)
class Parameter:
    """One matrix: ``name``, its spaces ``rows`` and ``columns``, its ``law`` at time zero, and whether SGD trains it.

    Spaces are names: ``"d"`` the embedding space, any other an inner space whose width the law of a letter with these
    columns gives, ``"1"`` the space of dimension one: a 1 x 1 parameter is a trainable scalar, moved with learning
    rate alpha_d/d, the time scale of the moments. ``symmetric`` declares X = X^T, which a flow must keep. A parameter
    without a law can be derived with, not solved.

    >>> from aimtheory.spectra import GaussianEntries
    >>> str(Parameter("W1", columns="r1", law=GaussianEntries(width=1, trace=1)).letter.T)
    'W1^T'
    """

    name: str
    rows: str = EMBEDDING
    columns: str = EMBEDDING
    law: InitialLaw | None = None
    trained: bool = True
    symmetric: bool = False

    def __post_init__(self) -> None:
        for field in ("name", "rows", "columns"):
            if not isinstance(getattr(self, field), str):
                raise InputError(f"{field} = {getattr(self, field)!r} of parameter {self.name!r} must be text")
        for field in ("trained", "symmetric"):
            if not isinstance(getattr(self, field), bool):
                raise InputError(f"{field} = {getattr(self, field)!r} of parameter {self.name!r} must be True or False")
        Letter(self.name, self.rows, self.columns, self.symmetric)  # refuses names and shapes that no letter has
        if self.law is None:
            return
        if not is_parameter_law(self.law):
            hint = (
                "is the law of a product; give its factors one parameter each, or use AttentionModel.teacher_student"
                if is_matrix_law(self.law)
                else "is not a law; use GaussianEntries, Ginibre, Wishart, GOE, Atomic, Empirical, Constant"
            )
            raise InputError(f"law = {self.law!r} of parameter {self.name} {hint}")
        width = self.law.column_width
        if width is None and self.rows != self.columns:
            raise InputError(
                f"{self.law!r} is the law of a square matrix, but parameter {self.name} is {self.rows} x {self.columns}"
            )
        if self.columns == EMBEDDING and width is not None and width != 1:
            raise InputError(
                f"parameter {self.name} is {self.rows} x {EMBEDDING}, so its width is 1; its law has width {width}: "
                f"name its columns, or declare the transpose, {EMBEDDING} x {self.rows}"
            )
        if self.symmetric and not self.law.is_self_adjoint:
            raise InputError(f"parameter {self.name} is declared symmetric, but {self.law!r} is not self-adjoint")

    @property
    def letter(self) -> Letter:
        """The letter that stands for it in words."""
        return Letter(self.name, self.rows, self.columns, self.symmetric)

    @property
    def is_scalar(self) -> bool:
        """True for a 1 x 1 parameter."""
        return self.rows == SCALARS

    def known_law(self) -> InitialLaw:
        """The law, or ``InputError`` when none was given."""
        if self.law is None:
            raise InputError(
                f"no law is given for the parameter {self.name}; give it one, or matrices: initial={{...}}"
            )
        return self.law


__all__ = ["Parameter"]
