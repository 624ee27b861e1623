"""Runs of AMP and of gradient descent as plain data with stable keys."""

from __future__ import annotations

import numpy as np

from aimtheory.bayes import Channel
from aimtheory.report.export import Record
from aimtheory.simulate import AmpRun, GradientDescentRun


def _channel(channel: Channel) -> Record:
    fields = getattr(channel, "__dataclass_fields__", {})
    plain = {
        name: getattr(channel, name)
        for name in fields
        if name != "tokens" and isinstance(getattr(channel, name), int | float | str | tuple)
    }
    return {"channel": channel.name, "tokens": channel.tokens, "channel_options": plain}


def amp_record(run: AmpRun) -> Record:
    """AMP: ``values`` are means over seeds by iteration with ``standard_errors``, ``seed_values`` each seed's;
    ``predicted`` state evolution; ``mse``, ``mse_error`` and ``theory`` the last numbers.
    """
    return {
        "kind": "amp",
        **_channel(run.channel),
        "prior": [prior.label for prior in run.priors],
        "alpha": run.alpha,
        "dim": run.dim,
        "samples": run.samples,
        "damping": run.damping,
        "tolerance": run.tolerance,
        "dtype": run.dtype,
        "seeds": list(run.seeds),
        "seed_status": list(run.seed_status),
        "status": run.status.code,
        "advice": run.status.advice,
        "notes": list(run.status.notes),
        "seconds": run.seconds,
        "mse": run.mse,
        "mse_error": run.mse_error,
        "theory": run.theory,
        "iterations": run.iterations,
        "values": {name: run.mean(name) for name in run.values},
        "standard_errors": {name: run.standard_error(name) for name in run.values},
        "predicted": dict(run.predicted),
        "nishimori_gap": run.nishimori_gap[:, -1],
        "seed_values": dict(run.values),
    }


def gradient_descent_record(run: GradientDescentRun) -> Record:
    """Gradient descent: ``mse`` of one run, ``averaged_mse`` with ``averaged_mse_error`` over seeds, and the tables
    ``single`` (seeds x initializations x steps), ``losses`` and ``averaged`` (seeds x steps).
    """
    return {
        "kind": "gradient_descent",
        **_channel(run.channel),
        "prior": [run.prior.label],
        "alpha": run.alpha,
        "dim": run.dim,
        "samples": run.samples,
        "rank": run.rank,
        "learning_rate": run.learning_rate,
        "dtype": run.dtype,
        "seeds": list(run.seeds),
        "initializations": run.initializations,
        "status": run.status.code,
        "advice": run.status.advice,
        "notes": list(run.status.notes),
        "seconds": run.seconds,
        "mse": run.mse,
        "mse_error": run.standard_error(averaged=False) if np.all(run.done == run.initializations) else None,
        "averaged_mse": run.averaged_mse,
        "averaged_mse_error": run.standard_error(),
        "theory": run.theory,
        "steps": run.steps,
        "single": run.single,
        "losses": run.losses,
        "averaged": run.averaged,
    }


__all__ = ["amp_record", "gradient_descent_record"]
