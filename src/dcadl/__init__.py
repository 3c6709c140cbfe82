"""Discriminative dictionary learning for images and signals."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcadl import data
    from dcadl.estimators import (
        ADLSVM,
        DADL,
        DCADL,
        DPL,
        LCKSVD,
        LOOADL,
        SADL,
        ConvNet,
        PatchRidge,
        PCANet,
        RandomAtoms,
    )
    from dcadl.model_files import load, save
else:  # scikit-learn and SciPy take seconds to import: `dcadl --help`, which needs neither, must not wait

    def __getattr__(name: str) -> Any:
        if name in ("data", "estimators"):
            return import_module(f"dcadl.{name}")
        if name not in __all__:
            raise AttributeError(f"module 'dcadl' has no attribute {name!r}")
        room = import_module("dcadl.model_files" if name in ("load", "save") else "dcadl.estimators")
        return getattr(room, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


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
    "data",
    "load",
    "save",
]
__version__ = "0.1.0"
