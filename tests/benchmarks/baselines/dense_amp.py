"""AMP with stored sensing matrices, as the published experiments run it: the baseline of ``bench_amp``.

Written from the description of arXiv:2506.01582: sym(x_a x_b^T - delta_ab 1)/sqrt(d) for all T^2 pairs of every sample
in one n x d x d x T x T array, contracted by einsum; the denoiser and the error of the prior from roots of the cubic
point by point and an adaptive quadrature of f^3; for hardmax, orthant probabilities sample by sample. The formulas are
the exact ones, so that both programs do the same iteration.
"""

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm


def sensing(tokens):
    """(n, T, d) -> (n, d, d, T, T)."""
    _, count, dim = tokens.shape
    outer = np.einsum("nai,nbj->nijab", tokens, tokens)
    outer -= np.einsum("ij,ab->ijab", np.eye(dim), np.eye(count))
    return (outer + outer.transpose(0, 2, 1, 3, 4)) / (2 * np.sqrt(dim))


def stieltjes(point, noise, width):
    """The root with the largest imaginary part, just below the axis."""
    scale = width**-0.5
    roots = np.roots([scale * noise, -(scale * (point - 1e-8j) + noise), point - 1e-8j + scale - 1 / scale, -1])
    return roots[np.argmax(roots.imag)]


def edges(noise, width):
    """Real zeros of the discriminant of the cubic, by sampling its sign along z."""
    grid = np.linspace(-4 - 4 * noise**0.5, 4 + 4 / width + 4 * noise**0.5, 400)
    inside = np.array([stieltjes(z, noise, width).imag > 1e-5 for z in grid])
    turns = np.flatnonzero(inside[1:] != inside[:-1])
    return (grid[turns] + grid[turns + 1]) / 2


def prior_error(noise, width):
    """Delta - (4 pi^2/3) Delta^2 int f^3."""
    bounds = edges(noise, width)
    cube = sum(
        quad(lambda z: (stieltjes(z, noise, width).imag / np.pi) ** 3, low, high, limit=100)[0]
        for low, high in zip(bounds[::2], bounds[1::2], strict=True)
    )
    return noise - 4 * np.pi**2 / 3 * noise**2 * cube


def denoised(observed, noise, width):
    """Eigenvalue by eigenvalue."""
    eigenvalues, vectors = np.linalg.eig(observed)
    eigenvalues, vectors = eigenvalues.real, vectors.real
    new = [value - 2 * noise * stieltjes(value, noise, width).real for value in eigenvalues]
    return (vectors * new) @ vectors.T


def hardmax_gradient(outputs, omega, variance):
    """Sample by sample, T = 2; (n, 2, 2) upper triangular."""
    result = np.zeros_like(omega)
    scale = np.sqrt(3 * variance)
    for n, (first, second) in enumerate(outputs):
        s1, s2 = (1.0 if first == 0 else -1.0), (1.0 if second == 1 else -1.0)
        k1, k2 = s1 * (omega[n, 0, 0] - omega[n, 0, 1]) / scale, s2 * (omega[n, 1, 1] - omega[n, 0, 1]) / scale
        c = s1 * s2 / 3
        orthant = max(multivariate_normal([0, 0], [[1, c], [c, 1]]).cdf([k1, k2]), 1e-300)
        root = np.sqrt(1 - c * c)
        g1 = s1 / scale * norm.pdf(k1) * norm.cdf((k2 - c * k1) / root) / orthant
        g2 = s2 / scale * norm.pdf(k2) * norm.cdf((k1 - c * k2) / root) / orthant
        result[n] = [[g1, -(g1 + g2)], [0, g2]]
    return result


def softmax_gradient(outputs, omega, variance):
    """(n, T, T) upper triangular, from the log ratios of the outputs."""
    count = omega.shape[1]
    logs = np.log(outputs)
    last = logs[:, -1]
    forms = logs - logs[:, :, -1:] + (last - last[:, -1:])[:, :, None]
    weight = np.triu(1 / (1 + np.eye(count)))
    residual = forms - omega
    mean = (weight * residual).sum(axis=(1, 2), keepdims=True) / weight.sum()
    return weight * (residual - mean) / variance


class DenseAmp:
    """One ``step()`` is an iteration, without damping."""

    def __init__(self, tokens, outputs, width, gradient):
        self.sensing = sensing(tokens)
        self.outputs, self.width, self.gradient = outputs, width, gradient
        n, count, dim = tokens.shape
        self.alpha, self.dim = n / dim**2, dim
        self.mask = np.triu(np.ones((count, count)))
        self.multiplicity = 1 + np.eye(count)
        self.estimate, self.variance = np.sqrt(width) * np.eye(dim), 1.0
        self.g = np.zeros((n, count, count))

    def step(self):
        forms = np.einsum("nijab,ij->nab", self.sensing, self.estimate)
        omega = forms - self.multiplicity * self.variance * self.g
        self.g = self.gradient(self.outputs, omega, self.variance)
        qhat = 2 * self.alpha * (self.multiplicity * self.g**2).sum(axis=(1, 2)).mean()
        adjoint = np.einsum("nijab,nab,ab->ij", self.sensing, self.g, self.mask)
        observed = self.estimate + 2 / (self.dim * qhat) * adjoint
        self.estimate = denoised(observed, 1 / qhat, self.width)
        self.variance = prior_error(1 / qhat, self.width)
