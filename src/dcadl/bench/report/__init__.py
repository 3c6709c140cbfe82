"""Records → summaries → tables, figures and a page."""

from dcadl.bench.report.write import write_report

__all__ = ["write_report"]
