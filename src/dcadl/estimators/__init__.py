"""scikit-learn faces of the methods."""

from dcadl.estimators.controls import PatchRidge, RandomAtoms
from dcadl.estimators.dadl import DADL
from dcadl.estimators.dcadl import DCADL

__all__ = ["DADL", "DCADL", "PatchRidge", "RandomAtoms"]
