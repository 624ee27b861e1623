"""The options that say what is seen of the attention forms: one spelling in every command, that of Python."""

from __future__ import annotations

import argparse
from typing import Any

from aimtheory.cli.options import number
from aimtheory.errors import InputError

CHANNELS = ("softmax", "hardmax", "linear", "sign")

OWN_OPTIONS = {
    "inverse_temperature": ("softmax",),
    "noise": CHANNELS,
    "matrix_noise": CHANNELS,
    "output_noise": ("sign",),
    "flips": ("hardmax", "sign"),
    "thresholds": ("sign",),
}
"""Options of channels, and whose they are; the names are the arguments of their classes."""


def add_channel(parser: argparse.ArgumentParser) -> None:
    """--channel, --tokens and the options of single channels."""
    parser.add_argument(
        "--channel",
        default="softmax",
        choices=CHANNELS,
        help="what is seen of the attention forms (default %(default)s)",
    )
    parser.add_argument("--tokens", type=int, default=2, metavar="T", help="tokens a sample (default %(default)s)")
    parser.add_argument(
        "--inverse-temperature", type=number, metavar="BETA", help="inverse temperature of softmax (default 1)"
    )
    parser.add_argument(
        "--noise",
        type=number,
        metavar="DELTA",
        help="variance of Gaussian noise on every form, before the non-linearity (default 0)",
    )
    parser.add_argument(
        "--matrix-noise",
        type=number,
        metavar="DELTA",
        help="variance of a fresh GOE matrix added to S at every sample: DELTA (1 + delta_ab) on the forms (default 0)",
    )
    parser.add_argument(
        "--output-noise", type=number, metavar="DELTA", help="variance of Gaussian noise after the sign (default 0)"
    )
    parser.add_argument(
        "--flips", type=number, metavar="P", help="probability that a label of sign or hardmax is flipped (default 0)"
    )
    parser.add_argument(
        "--thresholds", type=number, metavar="TAU", help="threshold of every form of the sign channel (default 0)"
    )


def channel_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the channel that were given; ``InputError`` for an option of another channel."""
    given = {name: getattr(arguments, name) for name in OWN_OPTIONS if getattr(arguments, name) is not None}
    for name in given:
        owners = OWN_OPTIONS[name]
        if arguments.channel not in owners:
            raise InputError(
                f"--{name.replace('_', '-')} belongs to the {' and '.join(owners)} channel, not to "
                f"{arguments.channel}; "
                "leave it out"
            )
    return given


__all__ = ["CHANNELS", "OWN_OPTIONS", "add_channel", "channel_options"]
