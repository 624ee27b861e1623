"""The attention-indexed model: tokens, indices, factorizations, loss. The one input of theory and simulation."""

from aimtheory.model.attention_model import AttentionIndex as AttentionIndex
from aimtheory.model.attention_model import AttentionModel as AttentionModel
from aimtheory.model.factorization import EMBEDDING as EMBEDDING
from aimtheory.model.factorization import Factorization as Factorization
from aimtheory.model.factorization import direct as direct
from aimtheory.model.factorization import tied as tied
from aimtheory.model.factorization import untied as untied
from aimtheory.model.letter_laws import LetterLaws as LetterLaws
from aimtheory.model.records import model_summary as model_summary
from aimtheory.model.token_covariance import validate_token_covariance as validate_token_covariance

__all__ = [
    "EMBEDDING",
    "AttentionIndex",
    "AttentionModel",
    "Factorization",
    "LetterLaws",
    "direct",
    "tied",
    "untied",
    "validate_token_covariance",
]
