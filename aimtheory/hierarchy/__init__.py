"""From a model to its moment hierarchy, its dependency graph, its closures and its compiled right-hand side."""

from aimtheory.hierarchy import closure_record as closure_record
from aimtheory.hierarchy.closure_map import ClosureMap as ClosureMap
from aimtheory.hierarchy.closures import Closure as Closure
from aimtheory.hierarchy.closures import closure as closure
from aimtheory.hierarchy.closures import closure_names as closure_names
from aimtheory.hierarchy.couplings import Coupling as Coupling
from aimtheory.hierarchy.drift import word_drift as word_drift
from aimtheory.hierarchy.flow import parameter_flow as parameter_flow
from aimtheory.hierarchy.moments import MomentHierarchy as MomentHierarchy
from aimtheory.hierarchy.moments import derive as derive
from aimtheory.hierarchy.views import Views as Views
from aimtheory.hierarchy.views import views as views

__all__ = [
    "Closure",
    "ClosureMap",
    "Coupling",
    "MomentHierarchy",
    "Views",
    "closure",
    "closure_names",
    "derive",
    "parameter_flow",
    "views",
    "word_drift",
]
