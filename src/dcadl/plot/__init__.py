"""Displays in scikit-learn's manner: `from_estimator`, `.plot(ax=…)`, then `figure_` and `ax_`."""

from dcadl.plot.atoms import AtomsDisplay
from dcadl.plot.codes import CodesDisplay
from dcadl.plot.convergence import ConvergenceDisplay

__all__ = ["AtomsDisplay", "CodesDisplay", "ConvergenceDisplay"]
