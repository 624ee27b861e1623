"""Bayes-optimal learning of attention-indexed models: channels, state evolution, free entropy, exact thresholds."""

from aimtheory.bayes.bivariate_normal import log_orthant, log_orthant_derivative, orthant
from aimtheory.bayes.channel import Channel
from aimtheory.bayes.channel_library import CHANNELS, make_any_channel, make_channel
from aimtheory.bayes.cross_attention import (
    CrossAttentionChannel,
    CrossHardmax,
    CrossLinear,
    CrossSign,
    CrossSoftmax,
    make_cross_channel,
    masked_self_attention,
)
from aimtheory.bayes.curves import bayes_curve, mmse_curve
from aimtheory.bayes.exact_digits import bayes_mmse_digits
from aimtheory.bayes.fixed_point import FixedPoint
from aimtheory.bayes.free_entropy import free_entropy, stationary_free_entropy
from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.hardmax_channel import HardmaxChannel
from aimtheory.bayes.head_channels import LinearHeads, SignHeads
from aimtheory.bayes.joint_channel import CoupledChannel, JointChannel
from aimtheory.bayes.joint_prior import JointPrior
from aimtheory.bayes.learning_curve import LearningCurve
from aimtheory.bayes.linear_channel import LinearChannel
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.multi_index_state_evolution import MultiIndexFixedPoint, MultiIndexStateEvolution
from aimtheory.bayes.phase_diagram import PhaseDiagram, phase_diagram
from aimtheory.bayes.prediction_error import prediction_error
from aimtheory.bayes.prior import LawPrior, Prior, SmallWidthPrior, make_prior
from aimtheory.bayes.rectangular_prior import RectangularPrior, make_rectangular_prior
from aimtheory.bayes.sign_channel import SignChannel
from aimtheory.bayes.softmax_channel import SoftmaxChannel, softmax_directions
from aimtheory.bayes.softmax_heads import SoftmaxHeads
from aimtheory.bayes.specialization import Specialization, SpecializationPoint, SpecializationTransition
from aimtheory.bayes.state_evolution import BranchCurve, FirstOrderTransition, Spinodal, StateEvolution
from aimtheory.bayes.thresholds import (
    Threshold,
    perfect_recovery_by_counting,
    perfect_recovery_by_limit,
    threshold,
    weak_recovery_signal,
)
from aimtheory.bayes.token_pairs import pair_multiplicity, token_pairs

__all__ = [
    "CHANNELS",
    "BranchCurve",
    "Channel",
    "CoupledChannel",
    "CrossAttentionChannel",
    "CrossHardmax",
    "CrossLinear",
    "CrossSign",
    "CrossSoftmax",
    "FirstOrderTransition",
    "FixedPoint",
    "GeneralChannel",
    "HardmaxChannel",
    "JointChannel",
    "JointPrior",
    "LawPrior",
    "LearningCurve",
    "LinearChannel",
    "LinearHeads",
    "Measured",
    "MultiIndexFixedPoint",
    "MultiIndexStateEvolution",
    "PhaseDiagram",
    "Prior",
    "RectangularPrior",
    "SignChannel",
    "SignHeads",
    "SmallWidthPrior",
    "SoftmaxChannel",
    "SoftmaxHeads",
    "Specialization",
    "SpecializationPoint",
    "SpecializationTransition",
    "Spinodal",
    "StateEvolution",
    "Threshold",
    "bayes_curve",
    "bayes_mmse_digits",
    "free_entropy",
    "log_orthant",
    "log_orthant_derivative",
    "make_any_channel",
    "make_channel",
    "make_cross_channel",
    "make_prior",
    "make_rectangular_prior",
    "masked_self_attention",
    "mmse_curve",
    "orthant",
    "pair_multiplicity",
    "perfect_recovery_by_counting",
    "perfect_recovery_by_limit",
    "phase_diagram",
    "prediction_error",
    "softmax_directions",
    "stationary_free_entropy",
    "threshold",
    "token_pairs",
    "weak_recovery_signal",
]
