"""scikit-learn faces of the methods."""

from dcadl.estimators.adlsvm import ADLSVM
from dcadl.estimators.controls import PatchRidge, RandomAtoms
from dcadl.estimators.convnet import ConvNet
from dcadl.estimators.dadl import DADL
from dcadl.estimators.dcadl import DCADL
from dcadl.estimators.dpl import DPL
from dcadl.estimators.lcksvd import LCKSVD
from dcadl.estimators.loo_adl import LOOADL
from dcadl.estimators.pcanet import PCANet
from dcadl.estimators.sadl import SADL

__all__ = [
    "ADLSVM",
    "DADL",
    "DCADL",
    "DPL",
    "LCKSVD",
    "LOOADL",
    "SADL",
    "ConvNet",
    "PCANet",
    "PatchRidge",
    "RandomAtoms",
]
