"""The dynamics: trajectories of closed hierarchies, how far to trust them, and the exactly solvable case."""

from aimtheory.dynamics.branch import Branch as Branch
from aimtheory.dynamics.branch import BranchPath as BranchPath
from aimtheory.dynamics.closed_model import ClosedModel as ClosedModel
from aimtheory.dynamics.closed_model import close as close
from aimtheory.dynamics.exact_linear import eigenvalue_solution as eigenvalue_solution
from aimtheory.dynamics.exact_linear import first_moment as first_moment
from aimtheory.dynamics.exact_linear import riccati_solution as riccati_solution
from aimtheory.dynamics.fast_flow import FastFlow as FastFlow
from aimtheory.dynamics.fast_flow import fast_flow as fast_flow
from aimtheory.dynamics.high_precision import PreciseTrajectory as PreciseTrajectory
from aimtheory.dynamics.high_precision import solve_to_digits as solve_to_digits
from aimtheory.dynamics.integrate import Event as Event
from aimtheory.dynamics.recovery import Recovery as Recovery
from aimtheory.dynamics.recovery import recovery as recovery
from aimtheory.dynamics.recovery_diagram import RecoveryDiagram as RecoveryDiagram
from aimtheory.dynamics.recovery_diagram import recovery_diagram as recovery_diagram
from aimtheory.dynamics.solve import solve as solve
from aimtheory.dynamics.trajectory import Trajectory as Trajectory
from aimtheory.dynamics.truncation import TruncationStudy as TruncationStudy
from aimtheory.dynamics.truncation import truncation_study as truncation_study
from aimtheory.status import Status as Status

__all__ = [
    "Branch",
    "BranchPath",
    "ClosedModel",
    "Event",
    "FastFlow",
    "PreciseTrajectory",
    "Recovery",
    "RecoveryDiagram",
    "Status",
    "Trajectory",
    "TruncationStudy",
    "close",
    "eigenvalue_solution",
    "fast_flow",
    "first_moment",
    "recovery",
    "recovery_diagram",
    "riccati_solution",
    "solve",
    "solve_to_digits",
    "truncation_study",
]
