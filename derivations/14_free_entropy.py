"""14. State evolution is the gradient of the free entropy ([B]).

Result. f(q, q̂) = ψ_P(q̂) − q̂q/4 + αΨ_out(q) is stationary exactly at V = Q₀ − q = MMSE(q̂) and
q̂ = 2αE Σ(1+δ_ab)g_ab². The first follows from dI/dq̂ = MMSE/4, the second from the heat equation of Z,
for every channel.
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp
from document import Derivation, Step, check, main

from aimtheory.bayes import (
    HardmaxChannel,
    LinearChannel,
    SignChannel,
    SmallWidthPrior,
    SoftmaxChannel,
    StateEvolution,
    make_prior,
)

STENCIL = np.array([-1, 9, -45, 45, -9, 1]) / 60
OFFSETS = np.array([-3, -2, -1, 1, 2, 3])


def prior_side() -> None:
    """ψ_P = Q₀q̂/4 − I, so ψ_P' = (Q₀ − MMSE)/4 = q/4."""
    qhat, top = sp.symbols("qhat Q_0", positive=True)
    information, error = sp.Function("I"), sp.Function("M")
    slope = sp.diff(top * qhat / 4 - information(qhat), qhat).subs(sp.diff(information(qhat), qhat), error(qhat) / 4)
    check(sp.simplify(slope - (top - error(qhat)) / 4) == 0, "psi_P' = q/4")


def channel_side() -> None:
    """d/dq E Z log Z at V = Q₀ − q is ½E D (∂_ω Z)²/Z: the terms with log Z cancel between the two heat equations."""
    omega, variance = sp.symbols("omega V", real=True)
    scale = sp.Symbol("D", positive=True)
    z = sp.Function("Z")(omega, variance)
    heat = sp.diff(z, omega, 2) * scale / 2
    entropy = z * sp.log(z)
    # E over omega ~ N(0, D q): d/dq brings D/2 d^2/d omega^2; V = Q_0 - q brings -d/dV, and dZ/dV is the heat equation.
    moved = scale / 2 * sp.diff(entropy, omega, 2) - sp.diff(entropy, variance)
    moved = moved.subs(sp.diff(z, variance), heat)
    check(sp.simplify(moved - scale / 2 * sp.diff(z, omega) ** 2 / z) == 0, "Psi_out' = (1/2) E D g^2")
    # The Gaussian average of Z obeys the heat equation: checked on a polynomial and an exponential likelihood.
    noise = sp.Symbol("x", real=True)
    for likelihood in (noise**4 + 2 * noise, sp.exp(noise)):
        integrand = likelihood * sp.exp(-((noise - omega) ** 2) / (2 * scale * variance))
        average = sp.integrate(
            (integrand / sp.sqrt(2 * sp.pi * scale * variance)).subs(variance, sp.Symbol("V", positive=True)),
            (noise, -sp.oo, sp.oo),
        )
        v = sp.Symbol("V", positive=True)
        check(sp.simplify(sp.diff(average, v) - scale / 2 * sp.diff(average, omega, 2)) == 0, "the heat equation")


def stationarity() -> None:
    """All three statements on the library's channels, by differences of sixth order."""
    alpha = 0.05
    for channel in (
        SoftmaxChannel(2),
        SoftmaxChannel(3),
        HardmaxChannel(2),
        SignChannel(2, 0.2),
        LinearChannel(2, 0.3),
    ):
        model = StateEvolution(make_prior("1/2"), channel)
        point = model.solve(alpha)
        step = 2e-3 * point.mmse
        along_q = [model.free_entropy(point.q + step * k, point.qhat, alpha) for k in OFFSETS]
        check(abs(float(STENCIL @ along_q) / step) < 1e-8, f"df/dq = 0 for {channel.name}")
        step = 5e-3 * point.qhat
        along = [model.free_entropy(point.q, point.qhat + step * k, alpha) for k in OFFSETS]
        check(abs(float(STENCIL @ along) / step) < 1e-8, f"df/dqhat = 0 for {channel.name}")


def stability() -> sp.Expr:
    """On the curve α(q̂) = q̂/F(q(q̂)) the undamped map has slope 1 − d log α/d log q̂: rising parts are stable."""
    qhat = sp.Symbol("qhat", positive=True)
    signal, overlap = sp.Function("F"), sp.Function("q")
    alpha = qhat / signal(overlap(qhat))
    q = overlap(qhat)
    # The map q -> q(alpha F(q)) has slope alpha F'(q) q'(qhat).
    slope = alpha * sp.diff(signal(q), qhat)
    expected = 1 - sp.diff(sp.log(alpha), qhat) * qhat
    check(sp.simplify((slope - expected).doit()) == 0, "the slope of the map")
    return expected


def small_width() -> None:
    """In the limit ρ → 0 the same equations hold with t = ρ/q̂: α/ρ = 1/(t F((1−t)², t(2−t)))."""
    for channel in (HardmaxChannel(2), SignChannel(3)):
        for t in (0.3, 0.8):
            signal = float(channel.signal((1 - t) ** 2, t * (2 - t)).value)
            point = StateEvolution(SmallWidthPrior(), channel).solve(1 / (t * signal))
            check(math.isclose(point.mmse, t * (2 - t), rel_tol=1e-9), "the small-width curve")


def derive() -> Derivation:
    """Carry it out and hold the library to it."""
    prior_side()
    channel_side()
    stationarity()
    stability()
    small_width()
    return Derivation(
        "State evolution as the gradient of the free entropy",
        (
            Step(
                "The free entropy of [B], with $\\psi_P = Q_0 \\hat q/4 - I(\\hat q)$ and "
                "$\\Psi_{\\mathrm{out}} = E \\log Z$.",
                r"f(q, \hat q) = \psi_P(\hat q) - \frac{\hat q q}{4} + \alpha \Psi_{\mathrm{out}}(q)",
            ),
            Step(
                "$dI/d\\hat q = \\mathrm{MMSE}/4$ makes its derivative by $\\hat q$ the first equation.",
                r"\psi_P'(\hat q) = \frac{Q_0 - \mathrm{MMSE}(\hat q)}{4} = \frac{q}{4}",
            ),
            Step(
                "$Z$ is a Gaussian average over $h$: it obeys a heat equation in $V$, and the average over "
                "$\\omega$ one in $q$.",
                r"\partial_V Z = \frac12 \sum_{a \le b} D_{ab} \, \partial_{\omega_{ab}}^2 Z, \qquad "
                r"\frac{d}{dq} E F = \frac12 E \sum_{a \le b} D_{ab} \, \partial_{\omega_{ab}}^2 F",
            ),
            Step(
                "With $V = Q_0 - q$ all terms with $\\log Z$ cancel, and the second equation is left.",
                r"\Psi_{\mathrm{out}}'(q) = \frac12 E \sum_{a \le b} D_{ab} \, g_{ab}^2, \qquad \hat q = 4 \alpha "
                r"\Psi_{\mathrm{out}}'(q)",
            ),
            Step(
                "All solutions for all $\\alpha$ lie on one explicit curve, and those are stable where it rises.",
                r"\alpha(\hat q) = \frac{\hat q}{F(q(\hat q))}, \qquad \frac{dq_{n+1}}{dq_n} = 1 - \frac{d \log "
                r"\alpha}{d \log \hat q}",
            ),
            Step(
                "For $\\rho \\to 0$ the same curve reads, with $t = \\rho/\\hat q$,",
                r"\frac{\alpha}{\rho} = \frac{1}{t \, F\left( (1-t)^2, \, t(2-t) \right)}, \qquad \mathrm{MMSE} "
                r"= t (2 - t)",
            ),
        ),
    )


if __name__ == "__main__":
    main(derive)
