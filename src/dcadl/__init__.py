"""Discriminative dictionary learning for images and signals."""

from dcadl import data
from dcadl.estimators import DADL, DCADL, DPL, LCKSVD, ConvNet, PatchRidge, PCANet, RandomAtoms
from dcadl.estimators.files import load

__all__ = ["DADL", "DCADL", "DPL", "LCKSVD", "ConvNet", "PCANet", "PatchRidge", "RandomAtoms", "data", "load"]
__version__ = "0.1.0"
