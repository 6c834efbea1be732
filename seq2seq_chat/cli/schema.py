"""`seq2seq-chat schema`."""

from __future__ import annotations

from typing import Literal

import click


@click.command()
@click.option("--format", "output_format", type=click.Choice(["json", "markdown"]), default="json", show_default=True)
@click.option("--output", metavar="FILE", help="Write to FILE.  [default: stdout]")
def schema(output_format: Literal["json", "markdown"], output: str | None) -> None:
    """Print the reference of all settings.

    As a JSON schema, which editors use for completion and validation, or as Markdown.
    """
    from seq2seq_chat.config import json_schema, settings_reference
    from seq2seq_chat.system.files import write_atomically

    text = json_schema() if output_format == "json" else settings_reference()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_atomically(output, text)
