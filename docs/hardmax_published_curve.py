"""The exact hardmax curve beside what the bivariate density in place of the derivative gives, and the published one.

    python docs/hardmax_published_curve.py [--alpha 0.1,0.31,1.1]

T = 2, rho = 1/2. See hardmax_published_curve.md.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.optimize import brentq

from aimtheory.bayes import log_orthant, make_prior, mmse_curve

WIDTH = 0.5
PUBLISHED = {
    0.03262475949784735: 0.9562923462934305,
    0.10558175933035029: 0.8523759551842631,
    0.34168858483163805: 0.5928915347076302,
    1.1057884405861251: 0.29465464963345656,
    3.578603821185289: 0.11624006083014948,
}
"""Rows (alpha, mmse) of the public data of arXiv:2506.01582 for T = 2, rho = 1/2 (repository
BO_ExtensiveRankAttention); computed there with Monte-Carlo averages, uncertain by about 2e-3."""


def density_signal(ratio: float, step: float = 0.0625) -> float:
    """G(r) when phi_2(kappa_1, kappa_2; c) stands for d Phi_2/d kappa_a, g_aa = s_a phi_2/(Phi_2 sqrt(3V))."""
    t = np.arange(-3.0, math.asinh(9 * math.sqrt(ratio)) + step, step)
    x, y = np.meshgrid(np.sinh(t), np.sinh(t), indexing="ij")
    measure = step**2 * np.outer(np.cosh(t), np.cosh(t))
    total = 0.0
    for c in (1 / 3, -1 / 3):
        form = (x**2 - 2 * c * x * y + y**2) / (2 * (1 - c * c))
        norm = 2 * math.pi * math.sqrt(1 - c * c)
        # 3 A_1^2 + 3 A_2^2 + 6 c A_1 A_2 with A_1 = A_2 = phi_2, by Phi_2, averaged over kappa of size sqrt(r).
        bracket = (6 + 6 * c) * np.exp(-2 * form - log_orthant(x, y, c)) / norm**2
        total += float((measure * np.exp(-form / ratio) / (norm * ratio) * bracket).sum())
    return 4 / 3 * total


def density_mmse(alpha: float) -> float:
    """State evolution with that signal."""
    prior = make_prior(WIDTH)

    def residual(log_qhat: float) -> float:
        variance = float(prior.mmse(math.exp(log_qhat)))
        signal = density_signal((prior.second_moment - variance) / variance) / variance
        return log_qhat - math.log(alpha * signal)

    return float(prior.mmse(math.exp(brentq(residual, -9, 7, xtol=1e-9))))


def table(alphas: list[float]) -> list[tuple[float, float, float, float | None]]:
    """Rows (alpha, exact, with the density, published where there is a row for that alpha)."""
    exact = mmse_curve("hardmax", 2, WIDTH, alphas)
    return [(a, float(e), density_mmse(a), PUBLISHED.get(a)) for a, e in zip(alphas, exact, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The hardmax curve at T = 2, rho = 1/2: exact, and as published.")
    parser.add_argument("--alpha", help="comma-separated sample complexities (default: five of the published ones)")
    options = parser.parse_args()
    alphas = [float(a) for a in options.alpha.split(",")] if options.alpha else list(PUBLISHED)
    print("   alpha     exact      with the density  published")
    for alpha, exact, density, published in table(alphas):
        shown = "" if published is None else f"{published:.4f}"
        print(f"{alpha:9.5f}  {exact:.7f}  {density:.7f}         {shown}")


if __name__ == "__main__":
    main()
