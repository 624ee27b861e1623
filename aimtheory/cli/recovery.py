"""``aimtheory recovery``: does a model escape its uninformative start, how fast, and why."""

from __future__ import annotations

import argparse

from aimtheory.cli.options import Subparsers, add_model, command, positive_float
from aimtheory.cli.session import Session, suffix_of
from aimtheory.files import RESULT_SUFFIXES


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "recovery",
        "decide weak recovery: velocity, threshold time, samples, and the reason",
        "  aimtheory recovery tied-hermite2\n"
        "  aimtheory recovery untied-hermite2 --level 0.2 --dim 400 --learning-rate 0.01 --json",
        output="save the verdict to FILE (.nc or .json for 'aimtheory plot', .csv or .parquet)",
    )
    add_model(parser)
    parser.add_argument("--level", type=positive_float, help="threshold c of |p| (default: a tenth of the teacher's p)")
    parser.add_argument("--horizon", type=positive_float, help="longest time followed (default: from the velocity)")
    parser.add_argument("--degree", type=int, default=7, metavar="M", help="truncation degree (default %(default)s)")
    parser.add_argument("--closure", help="closure of the trajectory (default: gns, or none where the equations close)")
    parser.add_argument("--dim", type=int, help="dimension at which to count samples")
    parser.add_argument("--learning-rate", type=positive_float, help="learning rate at which to count samples")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Decide, print, save."""
    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)

    from aimtheory import library
    from aimtheory.dynamics import recovery
    from aimtheory.errors import InputError
    from aimtheory.records import as_data

    if (arguments.dim is None) != (arguments.learning_rate is None):
        raise InputError("--dim and --learning-rate go together, N = T d/(time factor x learning rate): give both")
    if arguments.dim is not None and arguments.dim < 2:
        raise InputError(f"--dim = {arguments.dim} must be an integer of at least 2")
    report = recovery(
        library.load(arguments.model),
        level=arguments.level,
        horizon=arguments.horizon,
        degree=arguments.degree,
        closure=arguments.closure,
    )
    beside: dict[str, float | None] = {}
    text = str(report)
    if arguments.dim is not None:
        count = report.samples_at(arguments.dim, arguments.learning_rate)
        beside["sample_count"] = count
        if count is not None:
            where = f"d = {arguments.dim}, learning rate {arguments.learning_rate:g}"
            text += f"\n  at {where}: N = {count:.4g}"
    if target is not None:
        session.save(report, target, **beside)
    session.say(text)
    session.emit(as_data(report, **beside))
    return 0


__all__ = ["register", "run"]
