"""Options that several verbs have."""

from __future__ import annotations

import click

results_option = click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of the runs."
)
