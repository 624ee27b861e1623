"""Order parameters to the Gaussian law of the forms (Theorem 1 of [D]), to the potential Φ and its gradients."""

from aimtheory.population.covariance_cone import nearest_covariance as nearest_covariance
from aimtheory.population.covariance_cone import nearest_order_parameters as nearest_order_parameters
from aimtheory.population.estimate import Estimate as Estimate
from aimtheory.population.estimate import PotentialGradients as PotentialGradients
from aimtheory.population.potential import Potential as Potential
from aimtheory.population.potential import potential as potential

__all__ = [
    "Estimate",
    "Potential",
    "PotentialGradients",
    "nearest_covariance",
    "nearest_order_parameters",
    "potential",
]
