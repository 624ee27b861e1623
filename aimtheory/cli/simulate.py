"""``aimtheory simulate``: models trained and teachers learned at finite d."""

from __future__ import annotations

import argparse

from aimtheory.cli.options import (
    Subparsers,
    add_model,
    add_observables,
    add_times,
    command,
    positive_float,
    read_integers,
    read_names,
    read_times,
)
from aimtheory.cli.session import INTERRUPTED_CODE, Session, suffix_of
from aimtheory.cli.simulate_bayes import register_algorithms
from aimtheory.errors import InputError
from aimtheory.files import RESULT_SUFFIXES


def register(subparsers: Subparsers) -> None:
    """Add the group and its commands."""
    group = subparsers.add_parser(
        "simulate", help="simulate a model at finite d", description="Simulate a model at finite d."
    )
    algorithms = group.add_subparsers(title="algorithms", metavar="ALGORITHM", required=True)
    parser = command(
        algorithms,
        "sgd",
        "train a model by online SGD with a fresh batch a step",
        "  aimtheory simulate sgd tied-softmax --dim 200 --seeds 0..3 --learning-rate 0.02 --batch 64 -o sgd.json",
        output="save the run to FILE (.nc or .json for 'aimtheory plot RUN.nc FILE' over a theory, .csv or .parquet)",
    )
    add_model(parser)
    parser.add_argument("--dim", type=int, default=400, help="embedding dimension d (default %(default)s)")
    parser.add_argument("--seed", type=int, help="one seed (default 0)")
    parser.add_argument("--seeds", metavar="LIST", help="several seeds, such as 0,1,2 or 0..7")
    parser.add_argument(
        "--learning-rate", type=positive_float, default=0.01, help="learning rate alpha_d (default %(default)s)"
    )
    parser.add_argument("--batch", type=int, default=256, help="samples a step (default %(default)s)")
    parser.add_argument("--eigenvalues", metavar="LIST", help="matrices such as S1 whose eigenvalues are kept")
    parser.add_argument("--matrices", action="store_true", help="keep the last parameter matrices in the file")
    add_times(parser, "0:4:9")
    add_observables(parser)
    parser.set_defaults(run=run_sgd)
    register_algorithms(algorithms)


def run_sgd(arguments: argparse.Namespace, session: Session) -> int:
    """Simulate, print, save; a run cut short by Ctrl-C is saved too."""
    target = session.target()
    if target is not None:
        suffix_of(target, RESULT_SUFFIXES)
    times = read_times(arguments.times)
    if arguments.seed is not None and arguments.seeds is not None:
        raise InputError("give --seed or --seeds, not both")
    seeds = read_integers(arguments.seeds, "--seeds") if arguments.seeds is not None else [arguments.seed or 0]

    from aimtheory import library
    from aimtheory.records import as_data
    from aimtheory.simulate import sgd

    result = sgd(
        library.load(arguments.model),
        dim=arguments.dim,
        learning_rate=arguments.learning_rate,
        batch=arguments.batch,
        times=times,
        seeds=seeds,
        observables=read_names(arguments.observables),
        eigenvalues=read_names(arguments.eigenvalues) or (),
        progress=session.progress(f"SGD at d = {arguments.dim}"),
    )
    if target is not None:
        session.save(result, target, matrices=arguments.matrices)
    session.say(repr(result))
    session.say(result.table())
    session.emit(as_data(result))
    if not result.status.ok or result.status.notes:
        session.remark(str(result.status))
    return INTERRUPTED_CODE if result.status.code == "interrupted" else 0


__all__ = ["register", "run_sgd"]
