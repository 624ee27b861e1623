"""The published way to Bayes-optimal curves, re-implemented from its description, as a baseline for speed.

arXiv:2506.01582: at every alpha the overlap q is iterated with damping; each step computes the MMSE by adaptive scalar
quadrature of the cubed density, the density at each point being the imaginary part of a root of the cubic for the
Stieltjes transform; the hardmax channel is an average over Monte-Carlo samples of omega and y, each with a scalar
bivariate normal distribution function. Nothing in the package uses it.
"""

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal

DAMPING = 0.5
TOLERANCE = 1e-4


def density(x, noise, width):
    """(1/pi) of the largest imaginary part among the roots of the cubic."""
    root = np.sqrt(width)
    roots = np.roots([noise / root, -(x / root + noise), x + 1 / root - root, -1.0])
    return max(roots.imag.max(), 0.0) / np.pi


def support(noise, width):
    """A bracket of the spectrum, by the edges of Marchenko and Pastur widened by the semicircle."""
    root = np.sqrt(width)
    reach = 2 * np.sqrt(noise)
    low = 0.0 if width < 1 else root * (1 - 1 / root) ** 2
    return low - reach, root * (1 + 1 / root) ** 2 + reach


def mmse(qhat, width):
    """Delta - (4 pi^2/3) Delta^2 int f^3 by adaptive quadrature."""
    noise = 1 / qhat
    low, high = support(noise, width)
    integral = quad(lambda x: density(x, noise, width) ** 3, low, high, limit=200, epsabs=1e-6, epsrel=1e-6)[0]
    return noise - 4 * np.pi**2 / 3 * noise**2 * integral


def softmax_mmse(alpha, width, tokens=2, steps=500):
    """One point of the softmax curve: damped iteration from the prior mean."""
    directions, top, q = tokens**2 + tokens - 2, 1 + width, width
    for _ in range(steps):
        new = top - mmse(alpha * directions / (top - q), width)
        if abs(new - q) < TOLERANCE:
            break
        q = DAMPING * q + (1 - DAMPING) * new
    return top - q


def hardmax_signal(q, variance, samples, rng):
    """signal(q, V) at T = 2 from ``samples`` draws of (omega, y), one scalar distribution function each."""
    total = 0.0
    scale = np.sqrt(3 * variance)
    for _ in range(samples):
        diagonal = np.sqrt(2 * q) * rng.standard_normal(2)
        off = np.sqrt(q) * rng.standard_normal()
        h = diagonal + np.sqrt(2 * variance) * rng.standard_normal(2)
        h12 = off + np.sqrt(variance) * rng.standard_normal()
        signs = np.where(h > h12, 1.0, -1.0)
        kappa = signs * (diagonal - off) / scale
        c = signs[0] * signs[1] / 3
        probability = multivariate_normal.cdf(kappa, mean=[0, 0], cov=[[1, c], [c, 1]])
        t = np.sqrt(1 - c * c)
        one = np.exp(-(kappa[0] ** 2) / 2) * _normal((kappa[1] - c * kappa[0]) / t)
        two = np.exp(-(kappa[1] ** 2) / 2) * _normal((kappa[0] - c * kappa[1]) / t)
        g1, g2 = np.array([signs[0] * one, signs[1] * two]) / (np.sqrt(2 * np.pi) * probability * scale)
        total += 2 * (2 * g1**2 + 2 * g2**2 + (g1 + g2) ** 2)
    return total / samples


def _normal(x):
    return multivariate_normal.cdf(x)
