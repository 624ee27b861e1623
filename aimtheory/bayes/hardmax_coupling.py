"""How far the rows of a hardmax answer fall short of being independent: they share the symmetric forms h_ab = h_ba.

    Delta(omega) = sum_a R_a - F,    F = 2 sum_y P(y) |E[z | y]|^2  (all rows),    R_a the same of row a alone,

at V = 1. With few tokens F is exact at every omega, and only omega is sampled. Beyond, an answer is sampled with
omega; ``|E[z|y]|^2 - sum_a |m_a|^2`` (m_a the posterior mean by row a alone) then fluctuates mostly by the products
``m_a m_b`` at the shared forms, whose mean at given omega is a one-dimensional integral over the shared form: they are
subtracted with the weight that leaves least.
"""

from __future__ import annotations

import numpy as np

from aimtheory.bayes.hardmax_chain import answer_chain, chain_moments, height_tables, possible_answers
from aimtheory.bayes.hardmax_forest import all_rows, forest_moments
from aimtheory.bayes.hardmax_means import draw_means
from aimtheory.bayes.hardmax_rows import TINY, RowPosterior, uniform_points
from aimtheory.bayes.token_pairs import pair_index, pair_multiplicity
from aimtheory.spectra.law import FloatArray

_UNLIKELY = 1e-9
"""Answers of a smaller probability are left out."""

_SHARED_WEIGHT = 1 / 3
"""Of the products at shared forms: the regression coefficient is between .27 and .45 at every T and r."""


def exact_coupling(tokens: int, ratio: float, count: int, seed: int, cells: int) -> float:
    """``E Delta`` at r = ratio over all answers, by one randomization of ``count`` points a component of omega."""
    scale = np.sqrt(pair_multiplicity(tokens))
    if ratio == 0:
        return float(coupling_of_all_answers(np.zeros((1, len(scale))), scale, tokens, cells)[0])
    omega, weight, _ = draw_means(tokens, ratio, count, seed)
    total = sum(
        float(weight[part] @ coupling_of_all_answers(omega[part], scale, tokens, cells))
        for part in np.array_split(np.arange(len(omega)), max(1, len(omega) // 192))
    )
    return total / len(omega)


def coupling_of_all_answers(omega: FloatArray, scale: FloatArray, tokens: int, cells: int) -> FloatArray:
    """Delta (N,) at means ``omega`` (N, P)."""
    multiplicity = pair_multiplicity(tokens)
    rows = all_rows(omega, scale, tokens)
    alone = rows.information(multiplicity[pair_index(tokens)][:, None, :]).sum(axis=1)
    tables = height_tables(omega, scale, tokens, cells, np.float32)
    together = np.zeros(len(omega))
    for answer in possible_answers(tokens):
        chain = answer_chain(answer)
        assert chain is not None
        likely = np.min([rows.probability[:, a, b] for a, b in enumerate(answer)], axis=0) > _UNLIKELY
        kept = np.flatnonzero(likely)
        if not len(kept):
            continue
        every = len(kept) == len(omega)
        z, slope = chain_moments(chain, tables if every else tables.at(kept), omega[kept], scale)
        squares = (slope**2 * multiplicity).sum(axis=1)
        together[kept] += 2 * np.where(z > _UNLIKELY, squares / np.maximum(z, _UNLIKELY), 0.0)
    return alone - together


def answer_entropy(tokens: int) -> float:
    """``-sum_y P(y) log P(y)`` when nothing is known (omega = 0), all answers enumerated."""
    scale = np.sqrt(pair_multiplicity(tokens))
    omega = np.zeros((1, len(scale)))
    tables = height_tables(omega, scale, tokens, 160)
    chains = [answer_chain(answer) for answer in possible_answers(tokens)]
    p = np.array([chain_moments(chain, tables, omega, scale)[0][0] for chain in chains if chain is not None])
    return float(-(p * np.log(p)).sum())


def sampled_coupling(tokens: int, ratio: float, count: int, seed: int, inner: int) -> float:
    """``E Delta`` at r = ratio from ``count`` sampled (omega, h), each posterior by four rules of ``inner`` points.

    The square of the posterior mean is a product of means by different rules, and the bias of their ratios is removed
    to first order: twice the products of means by two rules each, less those by one.
    """
    multiplicity = pair_multiplicity(tokens)
    scale = np.sqrt(multiplicity)
    pairs = len(scale)
    index = pair_index(tokens)
    means, weights, normal = draw_means(tokens, ratio, count, seed, further=pairs)
    rng = np.random.default_rng(seed)
    rules = uniform_points(tokens, inner, seed).T
    total = 0.0
    for part in np.array_split(np.arange(len(means)), max(1, len(means) * tokens**2 // 6000)):
        omega = means[part]
        answers = (omega + scale * normal[part])[:, index].argmax(axis=2)
        rows = all_rows(omega, scale, tokens)
        shift = rng.random((4, len(part), tokens, 1))
        points = np.concatenate([np.abs((rules + move) % 1) for move in shift], axis=-1)
        z, moment = forest_moments(answers, omega, scale, rows, np.clip(points, 1e-15, 1 - 1e-15), parts=4)
        joint = _square_of_mean(z, moment)
        gradient = np.take_along_axis(rows.gradient, answers[:, :, None, None], axis=2)[:, :, 0]
        alone = gradient * scale[index]
        products = alone * np.swapaxes(alone, 1, 2)
        shared = products.sum(axis=(1, 2)) - np.einsum("naa->n", products)
        expected = shared_products(omega, scale, rows)
        excess = (alone**2).sum(axis=(1, 2)) - joint - _SHARED_WEIGHT * (shared - expected)
        total += float(weights[part] @ excess)
    return 2 * total / len(means)


def _square_of_mean(z: FloatArray, moment: FloatArray) -> FloatArray:
    """``|E z|^2`` (N,) from four independent estimates of Z (4, N) and of Z E z (4, N, P)."""
    safe = np.maximum(z, TINY)[:, :, None]
    single = moment / safe
    first = ((single.sum(axis=0) ** 2).sum(axis=1) - (single**2).sum(axis=(0, 2))) / 12
    second = np.zeros(z.shape[1])
    for i, j, k, m in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)):
        pair = (moment[i] + moment[j]) / (safe[i] + safe[j])
        second += (pair * (moment[k] + moment[m]) / (safe[k] + safe[m])).sum(axis=1) / 3
    return np.asarray(2 * second - first)


def shared_products(omega: FloatArray, scale: FloatArray, rows: RowPosterior) -> FloatArray:
    """``sum_{a != b} E[m_a m_b at the form h_ab | omega]`` (N,), y_a and y_b tied by that form alone.

    Given h_ab the two rows are independent: ``E = int dh phi(h) A_ab(h) A_ba(h)``, A_ab(h) the mean of m_a at h_ab over
    the answers of row a when that form is h.
    """
    tokens = rows.low.shape[1]
    index = pair_index(tokens)
    cells = rows.cumulative.shape[-1]
    spread = scale[index]
    mean = np.swapaxes(rows.gradient * spread[None, :, None, :], 2, 3).copy()
    place = np.arange(tokens)
    own = mean[:, :, place, place].copy()
    mean[:, :, place, place] = 0
    # The largest form is another one, above h (tail); or it is h_ab itself, above all others (rest).
    density = np.matmul(mean, rows.density) / rows.cumulative
    wide = np.concatenate([np.zeros_like(density[..., :1]), density, np.zeros_like(density[..., :1])], axis=-1)
    rise = wide[..., 1:] - wide[..., :-1]
    total = np.cumsum(density[..., ::-1], axis=-1)[..., ::-1]
    tail = np.concatenate([total, np.zeros_like(rise[..., :1])], axis=-1) - rise / 24
    slope = -0.5 * (wide[..., 1:] + wide[..., :-1])
    rest = rows.cumulative.prod(axis=2)[:, :, None, :] / rows.cumulative
    t = np.linspace(-5.25, 5.25, 29)
    weight = np.exp(-0.5 * t * t)
    weight /= weight.sum()
    cell = (omega[:, index][..., None] + spread[..., None] * t - rows.low[:, :, None, None]) / rows.step[
        :, :, None, None
    ]
    value = _hermite(tail, slope, np.clip(cell, 0.0, cells))
    middle = np.clip(cell - 0.5, 0.0, cells - 1.0)
    value += own[..., None] * np.where(cell > 0, _hermite(rest, np.gradient(rest, axis=-1), middle), 0.0)
    product = (value * np.swapaxes(value, 1, 2)) @ weight
    return np.asarray(product.sum(axis=(1, 2)) - np.einsum("naa->n", product))


def _hermite(values: FloatArray, slopes: FloatArray, place: FloatArray) -> FloatArray:
    """Cubic interpolation along the last axis at places in units of its step."""
    left = np.minimum(place.astype(np.int64), values.shape[-1] - 2)
    x = place - left
    y = 1 - x
    result = np.take_along_axis(values, left, axis=-1) * (y * y * (1 + 2 * x))
    result += np.take_along_axis(values, left + 1, axis=-1) * (x * x * (1 + 2 * y))
    result += np.take_along_axis(slopes, left, axis=-1) * (y * y * x)
    result -= np.take_along_axis(slopes, left + 1, axis=-1) * (x * x * y)
    return result


__all__ = [
    "answer_entropy",
    "coupling_of_all_answers",
    "exact_coupling",
    "sampled_coupling",
    "shared_products",
]
