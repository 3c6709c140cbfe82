"""Displays in scikit-learn's manner: `from_estimator`, `.plot(ax=…)`, then `figure_` and `ax_`."""

from dcadl.plot.atoms import AtomsDisplay
from dcadl.plot.codes import CodesDisplay
from dcadl.plot.convergence import ConvergenceDisplay
from dcadl.plot.evidence import EvidenceDisplay

__all__ = ["AtomsDisplay", "CodesDisplay", "ConvergenceDisplay", "EvidenceDisplay"]
