"""`python -m dcadl.cli`."""

from dcadl.cli import app

app(prog_name="dcadl")
