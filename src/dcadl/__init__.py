"""Discriminative dictionary learning for images and signals."""

from dcadl import data
from dcadl.estimators import DCADL, PatchRidge, RandomAtoms
from dcadl.estimators.files import load

__all__ = ["DCADL", "PatchRidge", "RandomAtoms", "data", "load"]
__version__ = "0.1.0"
