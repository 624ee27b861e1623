"""Bayes-optimal learning of attention-indexed models: channels, state evolution, free entropy, exact thresholds."""

from aimtheory.bayes.bivariate_normal import log_orthant, log_orthant_derivative, orthant
from aimtheory.bayes.channel import Channel
from aimtheory.bayes.channel_library import CHANNELS, make_channel
from aimtheory.bayes.curves import bayes_curve, mmse_curve
from aimtheory.bayes.exact_digits import bayes_mmse_digits
from aimtheory.bayes.fixed_point import FixedPoint
from aimtheory.bayes.free_entropy import free_entropy, stationary_free_entropy
from aimtheory.bayes.general_channel import GeneralChannel
from aimtheory.bayes.hardmax_channel import HardmaxChannel
from aimtheory.bayes.learning_curve import LearningCurve
from aimtheory.bayes.linear_channel import LinearChannel
from aimtheory.bayes.measured import Measured
from aimtheory.bayes.multi_index_state_evolution import MultiIndexFixedPoint, MultiIndexStateEvolution
from aimtheory.bayes.phase_diagram import PhaseDiagram, phase_diagram
from aimtheory.bayes.prior import LawPrior, Prior, SmallWidthPrior, make_prior
from aimtheory.bayes.sign_channel import SignChannel
from aimtheory.bayes.softmax_channel import SoftmaxChannel, softmax_directions
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
    "FirstOrderTransition",
    "FixedPoint",
    "GeneralChannel",
    "HardmaxChannel",
    "LawPrior",
    "LearningCurve",
    "LinearChannel",
    "Measured",
    "MultiIndexFixedPoint",
    "MultiIndexStateEvolution",
    "PhaseDiagram",
    "Prior",
    "SignChannel",
    "SmallWidthPrior",
    "SoftmaxChannel",
    "Spinodal",
    "StateEvolution",
    "Threshold",
    "bayes_curve",
    "bayes_mmse_digits",
    "free_entropy",
    "log_orthant",
    "log_orthant_derivative",
    "make_channel",
    "make_prior",
    "mmse_curve",
    "orthant",
    "pair_multiplicity",
    "perfect_recovery_by_counting",
    "perfect_recovery_by_limit",
    "phase_diagram",
    "softmax_directions",
    "stationary_free_entropy",
    "threshold",
    "token_pairs",
    "weak_recovery_signal",
]
