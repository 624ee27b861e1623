"""What the names in equations, results and files mean; the command line and the documentation say it in these words."""

from __future__ import annotations

import re
from types import MappingProxyType

GLOSSARY = MappingProxyType(
    {
        "Indices": {
            "k, l": "attention matrices, numbered from 1; in a teacher-student model 1 is the student, which is "
            "trained, and 2 the teacher: p_12 is between student and teacher",
            "tr": "normalized trace Tr/d, finite as the embedding dimension d grows; tr(S1 S2) is that of a product",
        },
        "Order parameters": {
            "t_k": "tr S_k, the mean eigenvalue of attention matrix k",
            "q_kl": "tr(S_k S_l^T), the overlap of two attention matrices; q_kk is the mean squared singular value",
            "q1_kl, q2_kl": "tr(S_k S_l^T) and tr(S_k S_l), which differ where the matrices are not symmetric",
            "p_kl": "q_kl - t_k t_l, the structural overlap: what two matrices share beyond their mean eigenvalues; "
            "weak recovery is p_12 leaving 0",
            "m_k": "the mean of attention form k, the limit of Tr S_k/sqrt(d); only of forms that are not centred",
            "R_kl": "tr(V_k^T V_l), the overlap of two value matrices: an explicit trace, which the loss reads as a "
            "number; a model may give its traces other names",
            "loss": "Phi, the population loss as a function of the order parameters, without weight decay",
        },
        "Matrices": {
            "S_k": "attention matrix k, d x d; its form is x_i^T S_k x_j / sqrt(d) for tokens x_i, x_j. Written S1, S2 "
            "in words",
            "W_k": "factor of tied attention, S_k = W_k W_k^T, with r = width x d columns",
            "U_k, V_k": "factors of untied attention (query and key), S_k = U_k V_k^T",
            "A_k, B_k, M_k": "U_k U_k^T, V_k V_k^T and U_k V_k^T: untied attention moves these three together, and "
            "words are products of them. A matrix given directly is its own letter, S_k, or M_k beside an untied one",
        },
        "Couplings": {
            "g_kl": "gradient of Phi by q_kl, over ordered pairs: dPhi = sum_kl g_kl dq_kl",
            "g1_kl, g2_kl": "gradients of Phi by q1_kl and q2_kl, over ordered pairs",
            "dPhi_R": "gradient of Phi by an explicit trace R, by the name that the model gives it",
            "beta_k": "bias of the mean of form k: sqrt(d) dPhi/dm_k, which keeps tr S_k at zero",
            "gamma": "weight decay",
        },
        "Time and size": {
            "t": "time: steps n x learning rate alpha_d x clock / d; the clock is 4 for tied attention, else 1",
            "d": "embedding dimension, --dim; theories are its limit to infinity",
            "rho": "width: the rank of an attention matrix over d, r/d",
            "M": "truncation degree, --degree: words of at most that many attention matrices are kept",
        },
        "Bayes-optimal learning": {
            "alpha": "sample complexity n/d^2; not the learning rate alpha_d",
            "q, qhat": "overlap of the estimate with the teacher, and the precision of the equivalent denoising "
            "problem",
            "MMSE": "minimum mean squared error per d, E tr (S - E[S | data])^2",
            "T": "tokens a sample, --tokens; L in the dynamics",
        },
        "Results": {
            "status": "what happened, and what to do about it; 'complete' is checked, 'untrusted' is not to be used "
            "past trusted_until",
            "trusted_until": "the time up to which the error that degree M leaves, estimated from degrees M, M - 2 and "
            "M - 4, is within the tolerance for every observable; the status names the one that ends it",
        },
    }
)
"""Meanings by section; k and l stand for indices."""


def explain(name: str) -> str | None:
    """The meaning of a name as results spell it, None for one that is not in the glossary.

    >>> explain("p_12").split(":")[0]
    'q_kl - t_k t_l, the structural overlap'
    """
    if name.startswith("tr("):
        return "the normalized trace of a product"
    for entries in GLOSSARY.values():
        for key, meaning in entries.items():
            if any(re.fullmatch(_pattern(part), name) for part in key.split(", ")):
                return meaning
    return None


def _pattern(spelled: str) -> str:
    """The names that an entry stands for: p_kl is p_12 and p_10,12; S_k is also S1, as words write it."""
    if spelled.endswith("_kl"):
        return re.escape(spelled[:-2]) + r"\d(\d|\d?,\d+)"
    if spelled.endswith("_k"):
        return re.escape(spelled[:-2]) + r"_?\d+"
    return re.escape(spelled)


__all__ = ["GLOSSARY", "explain"]
