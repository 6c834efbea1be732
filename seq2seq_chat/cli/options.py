"""What several verbs have in common."""

from __future__ import annotations

import click

results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs."
)
snapshot_option = click.option(
    "--snapshot", metavar="NAME", help="A snapshot's name, `best` or `latest`.  [default: latest]"
)


def warn(text: str) -> None:
    """Tell people what goes on otherwise than they may think."""
    click.echo(f"warning: {text}", err=True)
