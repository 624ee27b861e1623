"""Channels by name, as the command line and the curves call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aimtheory.bayes.channel import Channel
from aimtheory.bayes.hardmax_channel import HardmaxChannel
from aimtheory.bayes.joint_channel import JointChannel
from aimtheory.bayes.linear_channel import LinearChannel
from aimtheory.bayes.seen_forms import SeenForms
from aimtheory.bayes.sign_channel import SignChannel
from aimtheory.bayes.softmax_channel import SoftmaxChannel
from aimtheory.errors import InputError

CHANNELS: dict[str, Callable[..., Channel]] = {
    "softmax": SoftmaxChannel,
    "hardmax": HardmaxChannel,
    "linear": LinearChannel,
    "sign": SignChannel,
}


def make_channel(channel: str | Channel, tokens: int | None = None, **options: Any) -> Channel:
    """A channel from its name, the number of tokens (default 2) and its own options; a Channel passes through.

    Every named channel takes ``noise=`` (variance of Gaussian noise on the forms, a number or a symmetric matrix) and
    ``matrix_noise=`` (variances ``Delta (1 + delta_ab)``), before its non-linearity; sign and hardmax take
    ``flips=``, sign ``output_noise=`` too. Further ``inverse_temperature=`` (softmax), ``thresholds=`` (sign),
    ``points=``, ``seed=`` (hardmax).

    >>> make_channel("softmax", tokens=3).exact_directions
    10.0
    """
    if isinstance(channel, Channel):
        if tokens is not None and tokens != channel.tokens:
            raise InputError(f"tokens = {tokens} contradicts the channel, which has {channel.tokens} tokens")
        if options:
            raise InputError(f"options {sorted(options)} belong to the constructor of the channel; it is built already")
        return channel
    if channel not in CHANNELS:
        raise InputError(f"channel = {channel!r} is unknown; choose one of {', '.join(CHANNELS)} or give a Channel")
    try:
        return CHANNELS[channel](tokens=2 if tokens is None else tokens, **options)
    except TypeError as error:
        raise InputError(f"channel {channel!r} does not take these options: {error}") from error


def make_any_channel(channel: str | SeenForms, tokens: int | None = None, **options: Any) -> Channel | JointChannel:
    """:func:`make_channel`, where a channel of several matrices passes through as well.

    >>> from aimtheory.bayes import SignHeads
    >>> make_any_channel(SignHeads(2, 2)).is_joint
    True
    """
    if isinstance(channel, JointChannel):
        return channel
    return make_channel(channel, tokens, **options)  # type: ignore[arg-type]


__all__ = ["CHANNELS", "make_any_channel", "make_channel"]
