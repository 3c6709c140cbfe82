"""Every method that can stand in a table, one line each: its group, its name in tables, where it lives."""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

GROUPS = {
    "ours": "Ours",
    "controls": "Controls: what the same pictures give without learned atoms",
    "published": "Published methods, our implementations",
    "outsiders": "What else one would try",
}
UNLEARNED = "-unlearned"  # how labels of such rows end
ESTIMATORS, CONTROLS, OUTSIDERS = "dcadl.estimators", "dcadl.bench.controls", "dcadl.bench.outsiders"
PYRAMID = "dcadl.bench.pyramid_ridge"


class Method(NamedTuple):
    """One class."""

    group: str
    title: str
    home: str = ESTIMATORS
    differs: str = ""  # where a row departs from the method's own paper
    typed: str = ""  # what `dcadl fit` is told, where that is not the method's name


METHODS = {
    "LOOADL": Method("ours", "LOO-ADL"),
    "DCADL": Method("ours", "DCADL"),
    "PatchRidge": Method("controls", "Patch ridge"),
    "PCAAtoms": Method("controls", "PCA atoms", CONTROLS),
    "RandomAtoms": Method("controls", "Random atoms"),
    "PyramidRidge": Method("controls", "Pyramid + ridge", PYRAMID, typed="--features pyramid"),
    "PixelRidge": Method("controls", "Ridge on pixels", CONTROLS),
    "KernelRidge": Method("controls", "Kernel ridge (RBF)", CONTROLS),
    "PCANet": Method("published", "PCANet", differs="one stage, by default"),
    "ConvNet": Method("published", "ConvNet"),
    "ADLSVM": Method("published", "ADL+SVM"),
    "LCKSVD": Method(
        "published",
        "LC-KSVD",
        differs="the weights of its release for faces (16 and 4) suit its features and drown pixels of unit "
        "length: 0.001 and 0.01 on pixels; 1e-6 and 1e-6, its own for Caltech101, on both feature sets; "
        "or what tuning chose; twenty passes on Extended YaleB instead of fifty",
    ),
    "SADL": Method(
        "published",
        "SADL",
        differs="a descending solver instead of the authors' ADMM; ten passes on Extended YaleB instead of "
        "their stopping rule; λ4 on features is ours",
    ),
    "DADL": Method("published", "DADL", differs="codes without the threshold of its release"),
    "DPL": Method("published", "DPL", differs="an intercept, but on the paper's face tables"),
    "RBFSVM": Method("outsiders", "RBF-SVM", OUTSIDERS),
    "HOGSVM": Method("outsiders", "HOG + linear SVM", OUTSIDERS),
    "LogisticRegression": Method("outsiders", "Logistic regression", OUTSIDERS),
}


def method(name: str) -> Method:
    """What is known of a method; one that is not listed counts as published."""
    return METHODS.get(name, Method("published", name))


def method_names() -> list[str]:
    """Methods whose class exists."""
    from dcadl import estimators

    return [name for name in dict.fromkeys([*METHODS, *estimators.__all__]) if _exists(name)]


def find_class(name: str) -> type:
    """The class of that name."""
    return getattr(import_module(method(name).home), name)


def row_group(label: str, name: str) -> str:
    """Of a method; the same method with atoms nobody learned is a control."""
    return "controls" if label.endswith(UNLEARNED) else method(name).group


def row_title(label: str, name: str) -> str:
    """How a row is called: the title of its method, and what the label says beyond the method's name."""
    return method(name).title + label[len(name) :] if label.startswith(name) else label


def _exists(name: str) -> bool:
    return hasattr(import_module(method(name).home), name)
