"""Simulations at finite d: online SGD, finite-d forms, and their comparison with theory."""

from aimtheory.simulate.comparison import Comparison as Comparison
from aimtheory.simulate.comparison import compare as compare
from aimtheory.simulate.finite_forms import forms as forms
from aimtheory.simulate.finite_forms import forms_of as forms_of
from aimtheory.simulate.finite_forms import loss_and_gradient as loss_and_gradient
from aimtheory.simulate.online_sgd import OnlineSgd as OnlineSgd
from aimtheory.simulate.parameters import initial_parameters as initial_parameters
from aimtheory.simulate.run_status import RunStatus as RunStatus
from aimtheory.simulate.sgd_driver import sgd as sgd
from aimtheory.simulate.sgd_run import SgdRun as SgdRun

__all__ = [
    "Comparison",
    "OnlineSgd",
    "RunStatus",
    "SgdRun",
    "compare",
    "forms",
    "forms_of",
    "initial_parameters",
    "loss_and_gradient",
    "sgd",
]
