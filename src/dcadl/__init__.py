"""Discriminative dictionary learning for images and signals."""

from dcadl import data
from dcadl.estimators import ADLSVM, DADL, DCADL, DPL, LCKSVD, SADL, ConvNet, PatchRidge, PCANet, RandomAtoms
from dcadl.estimators.files import load

__all__ = [
    "ADLSVM",
    "DADL",
    "DCADL",
    "DPL",
    "LCKSVD",
    "SADL",
    "ConvNet",
    "PCANet",
    "PatchRidge",
    "RandomAtoms",
    "data",
    "load",
]
__version__ = "0.1.0"
