"""The attention-indexed model: parameters, forms, traces, contexts, loss. The one input of theory and simulation."""

from aimtheory.model.attention_model import AttentionModel as AttentionModel
from aimtheory.model.context import Context as Context
from aimtheory.model.form import Form as Form
from aimtheory.model.form import Trace as Trace
from aimtheory.model.losses import CrossEntropy as CrossEntropy
from aimtheory.model.losses import ExpressionLoss as ExpressionLoss
from aimtheory.model.losses import MeanSquaredError as MeanSquaredError
from aimtheory.model.parameter import Parameter as Parameter
from aimtheory.model.parameterization import Attention as Attention
from aimtheory.model.parameterization import direct as direct
from aimtheory.model.parameterization import tied as tied
from aimtheory.model.parameterization import untied as untied
from aimtheory.model.parameterization import written as written
from aimtheory.model.records import model_summary as model_summary
from aimtheory.model.token_covariance import validate_token_covariance as validate_token_covariance
from aimtheory.model.value_loss import ValueLoss as ValueLoss

__all__ = [
    "Attention",
    "AttentionModel",
    "Context",
    "CrossEntropy",
    "ExpressionLoss",
    "Form",
    "MeanSquaredError",
    "Parameter",
    "Trace",
    "ValueLoss",
    "direct",
    "model_summary",
    "tied",
    "untied",
    "validate_token_covariance",
    "written",
]
