"""Discriminative dictionary learning for images and signals."""

from dcadl import data
from dcadl.estimators import DADL, DCADL, PatchRidge, RandomAtoms
from dcadl.estimators.files import load

__all__ = ["DADL", "DCADL", "PatchRidge", "RandomAtoms", "data", "load"]
__version__ = "0.1.0"
