"""Bayes-optimal learning."""
from aimtheory.bayes.hardmax_channel import HardmaxChannel as HardmaxChannel
from aimtheory.bayes.linear_channel import LinearChannel as LinearChannel
from aimtheory.bayes.prior import make_prior as make_prior
from aimtheory.bayes.softmax_channel import SoftmaxChannel as SoftmaxChannel
