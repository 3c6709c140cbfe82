"""LOO-ADL: the estimator, its training images, and how a structure is chosen and atoms are learned."""

from dcadl.estimators.loo_adl.estimator import LOOADL

__all__ = ["LOOADL"]
