"""The command `dcadl`: words on the command line → one call into the library."""

import sys
from typing import Annotated

try:
    import typer

    from dcadl.cli.bench import bench, report, tune
    from dcadl.cli.card import card
    from dcadl.cli.compare import compare
    from dcadl.cli.data import data_app, features
    from dcadl.cli.demo import demo
    from dcadl.cli.evaluate import evaluate
    from dcadl.cli.explain import explain
    from dcadl.cli.export import export
    from dcadl.cli.fit import fit
    from dcadl.cli.info import info
    from dcadl.cli.predict import predict
    from dcadl.cli.serve import serve
    from dcadl.cli.show import show
    from dcadl.cli.terminal import InterruptibleApp
except KeyboardInterrupt:  # before there is a command that could say so
    sys.stderr.write("interrupted\n")
    sys.exit(130)

app = InterruptibleApp(
    help="Learn small filters and a linear classifier together, and classify images with them.",
    epilog="Start with: dcadl demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
COMMANDS = (
    demo,
    fit,
    predict,
    explain,
    evaluate,
    info,
    show,
    card,
    export,
    serve,
    features,
    compare,
    bench,
    tune,
    report,
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(data_app, name="data")


def _say_version(wanted: bool) -> None:
    if wanted:
        from dcadl import __version__

        typer.echo(f"dcadl {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Learn small filters and a linear classifier together, and classify images with them."""
