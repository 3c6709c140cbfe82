"""Parameters chosen by cross-validation inside each seed's own training split."""

from dcadl.bench.tuning.plan import tune_all

__all__ = ["tune_all"]
