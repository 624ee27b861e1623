"""aimtheory: order parameters, moment hierarchies and exact thresholds of attention-indexed models.

    model = aim.AttentionModel.teacher_student(...)   what is learned
    aim.derive(model, degree=6)                       its moment hierarchy: equations, graph, LaTeX
    aim.solve(model, degree=11, times=...)            a trajectory, with how far to trust it

Names are loaded on first use, so that ``import aimtheory`` is light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_EXPORTS = {
    "AimTheoryError": "aimtheory.errors",
    "AssumptionError": "aimtheory.errors",
    "InputError": "aimtheory.errors",
    "NumericsError": "aimtheory.errors",
    "AttentionModel": "aimtheory.model",
    "Context": "aimtheory.model",
    "CrossEntropy": "aimtheory.model",
    "ExpressionLoss": "aimtheory.model",
    "Form": "aimtheory.model",
    "MeanSquaredError": "aimtheory.model",
    "Parameter": "aimtheory.model",
    "Trace": "aimtheory.model",
    "ValueLoss": "aimtheory.model",
    "Atomic": "aimtheory.spectra",
    "Empirical": "aimtheory.spectra",
    "Constant": "aimtheory.spectra",
    "GaussianEntries": "aimtheory.spectra",
    "SquareRoot": "aimtheory.spectra",
    "UserDensity": "aimtheory.spectra",
    "GOE": "aimtheory.spectra",
    "GaussianFactors": "aimtheory.spectra",
    "Ginibre": "aimtheory.spectra",
    "MatrixFamily": "aimtheory.spectra",
    "Wishart": "aimtheory.spectra",
    "AttentionNetwork": "aimtheory.networks",
    "load": "aimtheory.results",
    "MomentHierarchy": "aimtheory.hierarchy",
    "derive": "aimtheory.hierarchy",
    "ClosedModel": "aimtheory.dynamics",
    "Trajectory": "aimtheory.dynamics",
    "close": "aimtheory.dynamics",
    "fast_flow": "aimtheory.dynamics",
    "Event": "aimtheory.dynamics",
    "Recovery": "aimtheory.dynamics",
    "recovery": "aimtheory.dynamics",
    "recovery_diagram": "aimtheory.dynamics",
    "solve": "aimtheory.dynamics",
    "solve_to_digits": "aimtheory.dynamics",
    "truncation_study": "aimtheory.dynamics",
}
_MODULES = {
    "bayes": "aimtheory.bayes",
    "networks": "aimtheory.networks",
    "models": "aimtheory.library",
    "population": "aimtheory.population",
    "simulate": "aimtheory.simulate",
}

__all__ = ["__version__", *sorted([*_EXPORTS, *_MODULES])]

if TYPE_CHECKING:
    from aimtheory import bayes as bayes
    from aimtheory import library as models  # noqa: F401
    from aimtheory import networks as networks
    from aimtheory import population as population
    from aimtheory import simulate as simulate
    from aimtheory.dynamics import ClosedModel as ClosedModel
    from aimtheory.dynamics import Event as Event
    from aimtheory.dynamics import Recovery as Recovery
    from aimtheory.dynamics import Trajectory as Trajectory
    from aimtheory.dynamics import close as close
    from aimtheory.dynamics import fast_flow as fast_flow
    from aimtheory.dynamics import recovery as recovery
    from aimtheory.dynamics import recovery_diagram as recovery_diagram
    from aimtheory.dynamics import solve as solve
    from aimtheory.dynamics import solve_to_digits as solve_to_digits
    from aimtheory.dynamics import truncation_study as truncation_study
    from aimtheory.errors import AimTheoryError as AimTheoryError
    from aimtheory.errors import AssumptionError as AssumptionError
    from aimtheory.errors import InputError as InputError
    from aimtheory.errors import NumericsError as NumericsError
    from aimtheory.hierarchy import MomentHierarchy as MomentHierarchy
    from aimtheory.hierarchy import derive as derive
    from aimtheory.model import AttentionModel as AttentionModel
    from aimtheory.model import Context as Context
    from aimtheory.model import CrossEntropy as CrossEntropy
    from aimtheory.model import ExpressionLoss as ExpressionLoss
    from aimtheory.model import Form as Form
    from aimtheory.model import MeanSquaredError as MeanSquaredError
    from aimtheory.model import Parameter as Parameter
    from aimtheory.model import Trace as Trace
    from aimtheory.model import ValueLoss as ValueLoss
    from aimtheory.results import load as load
    from aimtheory.spectra import GOE as GOE
    from aimtheory.spectra import Atomic as Atomic
    from aimtheory.spectra import Constant as Constant
    from aimtheory.spectra import Empirical as Empirical
    from aimtheory.spectra import GaussianEntries as GaussianEntries
    from aimtheory.spectra import GaussianFactors as GaussianFactors
    from aimtheory.spectra import Ginibre as Ginibre
    from aimtheory.spectra import MatrixFamily as MatrixFamily
    from aimtheory.spectra import SquareRoot as SquareRoot
    from aimtheory.spectra import UserDensity as UserDensity
    from aimtheory.spectra import Wishart as Wishart


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module 'aimtheory' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_MODULES})
