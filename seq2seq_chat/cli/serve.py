"""`seq2seq-chat serve`."""

from __future__ import annotations

import ipaddress
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seq2seq_chat.cli.options import engine_options, ensure_can_create, results_option
from seq2seq_chat.system.errors import UserError

if TYPE_CHECKING:
    from seq2seq_chat.system.hardware import EngineOptions

ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


@click.command()
@results_option
@click.option(
    "--host",
    envvar="SEQ2SEQ_CHAT_HOST",
    default="127.0.0.1",
    show_default=True,
    show_envvar=True,
    help="Address to listen on.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=9001, show_default=True, help="0: any free port.")
@click.option(
    "--token",
    envvar="SEQ2SEQ_CHAT_TOKEN",
    show_envvar=True,
    metavar="TEXT",
    help="Token that requests must carry.  [default: none on 127.0.0.1, else generated]",
)
@click.option(
    "--root-path",
    default="",
    metavar="PATH",
    help="Path below which a reverse proxy serves the pages, such as /chat.  [default: none]",
)
@click.option(
    "--trusted-proxy",
    metavar="ADDRESS",
    help="IP address of a reverse proxy, whose X-Forwarded headers are trusted.  [default: none]",
)
@click.option(
    "--models", type=click.IntRange(1, 100), help="Models kept in memory.  [default: 4 to 16, depends on their size]"
)
@click.option(
    "--waiting", type=click.IntRange(1, 1000), default=256, show_default=True, help="Maximum queue length of a model."
)
@click.option(
    "--cores", type=click.IntRange(1, 1024), help="Processor cores per batch.  [default: depends on the models' size]"
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append a JSON object for each request: time, address, method, path, status, seconds.  [default: none]",
)
@engine_options
def serve(
    results: str,
    host: str,
    port: int,
    token: str | None,
    root_path: str,
    trusted_proxy: str | None,
    models: int | None,
    waiting: int,
    cores: int | None,
    log_file: Path | None,
    engine: EngineOptions,
) -> None:
    """Serve the web UI and the HTTP API."""
    from seq2seq_chat.runs.find import list_runs
    from seq2seq_chat.system.hardware import has_gpu
    from seq2seq_chat.system.versions import UnsupportedVersion, load_tensorflow

    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise UserError("--token: must consist of ASCII letters, digits and punctuation, without spaces")
    if not ROOT_PATH.fullmatch(root_path):
        raise UserError("--root-path: must be a path such as /chat, of letters, digits and . _ ~ -")
    try:
        ipaddress.ip_address("127.0.0.1" if trusted_proxy is None else trusted_proxy)
    except ValueError:
        raise UserError("--trusted-proxy: must be the IP address of the proxy, such as 127.0.0.1") from None
    ensure_can_create("--log-file", log_file)
    if engine.name == "tensorflow" or (engine.name == "auto" and has_gpu()):
        has_exported = any(run.is_exported for run in list_runs(results))
        with suppress(*([UnsupportedVersion] if has_exported else [])):  # exported models do not need it
            load_tensorflow()
    from webui.limits import Limits
    from webui.server import Proxy, default_models
    from webui.server import serve as serve_pages

    limits = Limits(max_models=models or default_models(results), max_queued=waiting, max_queued_total=2 * waiting)
    proxy = Proxy(root_path.rstrip("/"), trusted_proxy)
    serve_pages(results, host, port, token, limits, cores, click.echo, proxy, engine, log_file)
