"""``aimtheory simulate amp`` and ``simulate gd``: algorithms that learn a teacher from a fixed data set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from aimtheory.cli.channel_options import add_channel, channel_options
from aimtheory.cli.options import Subparsers, command, number, positive_float, read_integers
from aimtheory.cli.session import INTERRUPTED_CODE, Session, suffix_of
from aimtheory.errors import InputError
from aimtheory.files import RESULT_SUFFIXES


def register_algorithms(algorithms: Subparsers) -> None:
    """Add both commands to the group ``simulate``."""
    parser = command(
        algorithms,
        "amp",
        "learn a teacher by approximate message passing, beside the prediction of state evolution",
        "  aimtheory simulate amp --channel softmax --tokens 2 --width 0.5 --alpha 0.1 --dim 200 --seeds 0,1,2",
        output="save the run to FILE (.nc or .json for 'aimtheory plot', .csv or .parquet)",
    )
    _add_common(parser)
    parser.add_argument("--iterations", type=int, default=200, help="most iterations (default %(default)s)")
    parser.add_argument("--damping", type=number, default=0.5, help="weight of the old omega (default %(default)s)")
    parser.add_argument(
        "--tolerance", type=positive_float, default=1e-5, help="undamped change at which to stop (default %(default)s)"
    )
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64", help="of tokens and products")
    parser.set_defaults(run=run_amp)
    parser = command(
        algorithms,
        "gd",
        "learn a teacher by full-batch Adam, and average over initializations",
        "  aimtheory simulate gd --channel softmax --tokens 2 --width 0.5 --alpha 0.1 --dim 100 --initializations 8",
        output="save the run to FILE (.nc or .json for 'aimtheory plot', .csv or .parquet)",
    )
    _add_common(parser)
    parser.add_argument(
        "--initializations", type=int, default=32, help="students to average over (default %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=1000, help="Adam steps (default %(default)s)")
    parser.add_argument("--learning-rate", type=positive_float, default=0.1, help="default %(default)s")
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float32", help="of tokens and products")
    parser.set_defaults(run=run_gd)


def _add_common(parser: argparse.ArgumentParser) -> None:
    add_channel(parser)
    parser.add_argument("--width", required=True, metavar="RHO", help="rho = r/d of the teacher, such as 0.5 or 1/2")
    parser.add_argument("--alpha", required=True, type=number, help="sample complexity n/d^2")
    parser.add_argument("--dim", type=int, default=200, help="embedding dimension d (default %(default)s)")
    parser.add_argument("--seed", type=int, help="one seed (default 0)")
    parser.add_argument("--seeds", metavar="LIST", help="several seeds, such as 0,1,2 or 0..7")
    parser.add_argument("--matrices", action="store_true", help="keep estimates and teachers in the file")
    parser.add_argument(
        "--memory-limit",
        type=positive_float,
        metavar="GIB",
        default=4.0,
        help="GiB of tokens kept; more are drawn anew at each pass (default %(default)s)",
    )


def _arguments(arguments: argparse.Namespace, session: Session) -> tuple[Path | None, dict[str, Any]]:
    """Where to save, and the options both algorithms share."""
    from aimtheory.scalars import to_scalar

    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)
    if arguments.seed is not None and arguments.seeds is not None:
        raise InputError("give --seed or --seeds, not both")
    seeds = read_integers(arguments.seeds, "--seeds") if arguments.seeds is not None else [arguments.seed or 0]
    shared: dict[str, Any] = {
        "channel": arguments.channel,
        "tokens": arguments.tokens,
        "width": to_scalar(arguments.width, "--width"),
        "alpha": arguments.alpha,
        "dim": arguments.dim,
        "seeds": seeds,
        "dtype": arguments.dtype,
        "memory_limit": arguments.memory_limit,
        **channel_options(arguments),
    }
    return target, shared


def run_amp(arguments: argparse.Namespace, session: Session) -> int:
    """Run AMP, print, save; a run cut short by Ctrl-C is saved too."""
    target, shared = _arguments(arguments, session)

    from aimtheory.simulate import amp

    result = amp(
        **shared,
        iterations=arguments.iterations,
        damping=arguments.damping,
        tolerance=arguments.tolerance,
        progress=session.progress(f"AMP at d = {arguments.dim}"),
    )
    return _finish(result, arguments, target, session)


def run_gd(arguments: argparse.Namespace, session: Session) -> int:
    """Run gradient descent, print, save; a run cut short by Ctrl-C is saved too."""
    target, shared = _arguments(arguments, session)

    from aimtheory.simulate import gradient_descent

    result = gradient_descent(
        **shared,
        initializations=arguments.initializations,
        steps=arguments.steps,
        learning_rate=arguments.learning_rate,
        progress=session.progress(f"gradient descent at d = {arguments.dim}"),
    )
    return _finish(result, arguments, target, session)


def _finish(result: Any, arguments: argparse.Namespace, target: Path | None, session: Session) -> int:
    from aimtheory.records import as_data

    if target is not None:
        session.save(result, target, matrices=arguments.matrices)
    session.say(repr(result))
    session.say(result.table())
    session.emit(as_data(result))
    if not result.status.ok or result.status.notes:
        session.remark(str(result.status))
    return INTERRUPTED_CODE if result.status.code == "interrupted" else 0


__all__ = ["register_algorithms", "run_amp", "run_gd"]
