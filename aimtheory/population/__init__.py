"""Order parameters to the Gaussian law of the forms (Theorem 1 of [D]), to the potential Φ and its gradients."""

from aimtheory.population.assumptions import ExtensiveRank as ExtensiveRank
from aimtheory.population.assumptions import check_extensive_rank as check_extensive_rank
from aimtheory.population.assumptions import check_finite_mean as check_finite_mean
from aimtheory.population.assumptions import extensive_rank as extensive_rank
from aimtheory.population.covariance_cone import nearest_covariance as nearest_covariance
from aimtheory.population.covariance_cone import nearest_order_parameters as nearest_order_parameters
from aimtheory.population.estimate import Estimate as Estimate
from aimtheory.population.estimate import PotentialGradients as PotentialGradients
from aimtheory.population.gaussian_law import GaussianLaw as GaussianLaw
from aimtheory.population.gaussian_law import OrderParameters as OrderParameters
from aimtheory.population.gaussian_law import order_parameters as order_parameters
from aimtheory.population.likelihood_ratio import SampledPotential as SampledPotential
from aimtheory.population.likelihood_ratio import sampled_potential as sampled_potential
from aimtheory.population.population_loss import BoundLoss as BoundLoss
from aimtheory.population.population_loss import PopulationLoss as PopulationLoss
from aimtheory.population.population_loss import population_loss as population_loss
from aimtheory.population.potential import Potential as Potential
from aimtheory.population.potential import potential as potential
from aimtheory.population.softmax_long_context import LongContext as LongContext
from aimtheory.population.softmax_long_context import long_context_cross_entropy as long_context_cross_entropy
from aimtheory.population.softmax_long_context import long_context_overlap as long_context_overlap
from aimtheory.population.softmax_long_context import long_context_squared_error as long_context_squared_error
from aimtheory.population.wick import QuadraticForm as QuadraticForm
from aimtheory.population.wick import TraceExpansion as TraceExpansion
from aimtheory.population.wick import gaussian_limit as gaussian_limit
from aimtheory.population.wick import joint_cumulant as joint_cumulant
from aimtheory.population.wick import moment as moment

__all__ = [
    "BoundLoss",
    "Estimate",
    "ExtensiveRank",
    "GaussianLaw",
    "LongContext",
    "OrderParameters",
    "PopulationLoss",
    "Potential",
    "PotentialGradients",
    "QuadraticForm",
    "SampledPotential",
    "TraceExpansion",
    "check_extensive_rank",
    "check_finite_mean",
    "extensive_rank",
    "gaussian_limit",
    "joint_cumulant",
    "long_context_cross_entropy",
    "long_context_overlap",
    "long_context_squared_error",
    "moment",
    "nearest_covariance",
    "nearest_order_parameters",
    "order_parameters",
    "population_loss",
    "potential",
    "sampled_potential",
]
