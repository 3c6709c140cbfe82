"""DCADL: its estimator, and the doors through which its data come."""

from dcadl.estimators.dcadl.estimator import DCADL

__all__ = ["DCADL"]
