"""Health check of the container: a server must respond; any other command is healthy while it runs."""

from __future__ import annotations

import argparse
import sys
import urllib.request
from pathlib import Path

TIMEOUT = 5.0  # seconds


def main() -> None:
    """Exit with status 1 and the reason if the server of this container does not respond."""
    address = served_address(Path("/proc/1/cmdline").read_text(encoding="utf-8", errors="replace").split("\0"))
    if address is None:
        return
    try:
        urllib.request.urlopen(f"{address}/healthz", timeout=TIMEOUT).close()
    except OSError as error:
        sys.exit(f"{address} does not respond: {error}")


def served_address(command: list[str]) -> str | None:
    """The address of the server that a command line starts, or None if it starts none."""
    programs = [index for index, word in enumerate(command) if Path(word).name == "seq2seq-chat"]
    if not programs or command[programs[0] + 1 : programs[0] + 2] != ["serve"]:
        return None
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--port", default="9001")
    port = options.parse_known_args(command[programs[0] + 2 :])[0].port
    return f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    main()
