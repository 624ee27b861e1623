"""Reports: plots, LaTeX, Python source and JSON of results. They take results and compute nothing."""

from aimtheory.bayes import LearningCurve as LearningCurve
from aimtheory.records import to_json as to_json
from aimtheory.report.comparison_plot import comparison_plot as comparison_plot
from aimtheory.report.graph_plot import graph_plot as graph_plot
from aimtheory.report.latex import derivation_latex as derivation_latex
from aimtheory.report.mmse_plot import MeasuredPoints as MeasuredPoints
from aimtheory.report.mmse_plot import mmse_plot as mmse_plot
from aimtheory.report.phase_diagram_plot import phase_diagram_plot as phase_diagram_plot
from aimtheory.report.python_source import closed_source as closed_source
from aimtheory.report.python_source import python_source as python_source
from aimtheory.report.recovery_diagram_plot import recovery_diagram_plot as recovery_diagram_plot
from aimtheory.report.result_plot import result_plot as result_plot
from aimtheory.report.spectrum_plot import spectrum_plot as spectrum_plot
from aimtheory.report.style import save_figure as save_figure
from aimtheory.report.trajectory_plot import trajectory_plot as trajectory_plot
from aimtheory.report.truncation_plot import truncation_plot as truncation_plot

__all__ = [
    "LearningCurve",
    "MeasuredPoints",
    "closed_source",
    "comparison_plot",
    "derivation_latex",
    "graph_plot",
    "mmse_plot",
    "phase_diagram_plot",
    "python_source",
    "recovery_diagram_plot",
    "result_plot",
    "save_figure",
    "spectrum_plot",
    "to_json",
    "trajectory_plot",
    "truncation_plot",
]
