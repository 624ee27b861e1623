"""``aimtheory solve``: the trajectory of a model under a closure, with how far to trust it."""

from __future__ import annotations

import argparse

from aimtheory.cli.options import (
    Subparsers,
    add_model,
    add_observables,
    add_times,
    command,
    positive_float,
    read_events,
    read_names,
    read_times,
)
from aimtheory.cli.session import INTERRUPTED_CODE, Session, suffix_of
from aimtheory.files import RESULT_SUFFIXES

_CHECKS: dict[str, bool | str] = {"degrees": True, "matrix": "matrix", "none": False}


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = command(
        subparsers,
        "solve",
        "solve a model's dynamics in the limit of large d",
        "  aimtheory solve tied-softmax --degree 11 --closure zero --times 0:4:9 --observables p_12,loss -o run.nc\n"
        "  aimtheory solve tied-softmax --times 0:4:9 --events p_12=0.3",
        output="save the trajectory to FILE: .nc or .json for 'aimtheory plot' and aimtheory.load, .csv or .parquet",
    )
    add_model(parser)
    parser.add_argument(
        "--degree",
        type=int,
        default=11,
        metavar="M",
        help="truncation degree, where the closure truncates (default %(default)s)",
    )
    parser.add_argument(
        "--closure",
        default="auto",
        help="auto (exact where it applies, gns elsewhere), exact, gns (does not blow up), zero, matrix "
        "(default %(default)s)",
    )
    parser.add_argument("--dim", type=int, help="dimension d of --closure matrix")
    parser.add_argument("--seed", type=int, help="seed of --closure matrix")
    parser.add_argument(
        "--check",
        choices=tuple(_CHECKS),
        help="what the error is estimated from: lower degrees (of exact, a second quadrature), the flow of sampled "
        "matrices, or nothing (default degrees)",
    )
    add_times(parser, "0:4:9")
    add_observables(parser)
    parser.add_argument(
        "--events",
        action="append",
        metavar="NAME=LEVEL",
        help="report when an observable crosses a level, such as p_12=0.3 or 'p_12=0.3 rising'",
    )
    parser.add_argument("--stop", action="append", metavar="NAME=LEVEL", help="stop when an observable crosses a level")
    parser.add_argument(
        "--rtol", type=positive_float, default=1e-9, help="relative tolerance of the integrator (default %(default)s)"
    )
    parser.add_argument(
        "--atol", type=positive_float, default=1e-11, help="absolute tolerance of the integrator (default %(default)s)"
    )
    parser.add_argument("--states", action="store_true", help="keep the solver's states in the file, however large")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, session: Session) -> int:
    """Solve, print, save; a trajectory cut short by Ctrl-C is saved too."""
    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)
    times = read_times(arguments.times)

    from aimtheory import library
    from aimtheory.dynamics import solve
    from aimtheory.records import as_data

    options = {key: getattr(arguments, key) for key in ("dim", "seed") if getattr(arguments, key) is not None}
    result = solve(
        library.load(arguments.model),
        degree=arguments.degree,
        times=times,
        closure=arguments.closure,
        observables=read_names(arguments.observables),
        events=[*read_events(arguments.events, False), *read_events(arguments.stop, True)],
        check=_CHECKS[arguments.check or "degrees"],
        rtol=arguments.rtol,
        atol=arguments.atol,
        progress=session.progress(f"solving to t = {times[-1]:g}"),
        **options,
    )
    if target is not None:
        session.save(result, target, states=arguments.states)
    session.say(repr(result))
    session.say(result.table())
    for name, crossed in result.events.items():
        session.say(
            f"{name} at t = "
            + (", ".join(f"{time:.8g}" for time in crossed) if crossed else "never, up to the last time")
        )
    session.emit(as_data(result))
    if not result.status.ok or result.status.notes:
        session.remark(
            f"{result.status}"
            + (f" (trusted_until = {result.trusted_until:g})" if result.status.code == "untrusted" else "")
        )
    return INTERRUPTED_CODE if result.status.code == "interrupted" else 0


__all__ = ["register", "run"]
