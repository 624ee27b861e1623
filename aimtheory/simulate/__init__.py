"""Simulations at finite d: online SGD, AMP, gradient descent, finite-d forms, and their comparison with theory."""

from aimtheory.simulate.amp import amp as amp
from aimtheory.simulate.amp_run import AmpRun as AmpRun
from aimtheory.simulate.amp_state import AmpState as AmpState
from aimtheory.simulate.comparison import Comparison as Comparison
from aimtheory.simulate.comparison import compare as compare
from aimtheory.simulate.cross_amp import CrossAmpState as CrossAmpState
from aimtheory.simulate.finite_forms import forms as forms
from aimtheory.simulate.finite_forms import forms_of as forms_of
from aimtheory.simulate.finite_forms import loss_and_gradient as loss_and_gradient
from aimtheory.simulate.gradient_descent import gradient_descent as gradient_descent
from aimtheory.simulate.gradient_descent_run import GradientDescentRun as GradientDescentRun
from aimtheory.simulate.joint_amp import JointAmpState as JointAmpState
from aimtheory.simulate.online_sgd import OnlineSgd as OnlineSgd
from aimtheory.simulate.parameters import initial_parameters as initial_parameters
from aimtheory.simulate.sgd_driver import sgd as sgd
from aimtheory.simulate.sgd_run import SgdRun as SgdRun
from aimtheory.simulate.teacher_data import TeacherData as TeacherData
from aimtheory.simulate.teacher_data import teacher_data as teacher_data
from aimtheory.simulate.token_blocks import TokenBlocks as TokenBlocks

__all__ = [
    "AmpRun",
    "AmpState",
    "Comparison",
    "CrossAmpState",
    "GradientDescentRun",
    "JointAmpState",
    "OnlineSgd",
    "SgdRun",
    "TeacherData",
    "TokenBlocks",
    "amp",
    "compare",
    "forms",
    "forms_of",
    "gradient_descent",
    "initial_parameters",
    "loss_and_gradient",
    "sgd",
    "teacher_data",
]
