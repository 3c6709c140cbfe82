"""scikit-learn faces of the methods."""

from dcadl.estimators.controls import PatchRidge, RandomAtoms
from dcadl.estimators.dcadl import DCADL

__all__ = ["DCADL", "PatchRidge", "RandomAtoms"]
