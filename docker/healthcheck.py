"""Whether a container is in good health: a server has to answer; anything else, a training, is as long as it runs."""

from __future__ import annotations

import argparse
import sys
import urllib.request
from pathlib import Path

TIMEOUT = 5.0  # seconds


def main() -> None:
    """Exit with status 1 and a reason if this container's server does not answer."""
    address = served_address(Path("/proc/1/cmdline").read_text(encoding="utf-8", errors="replace").split("\0"))
    if address is None:
        return
    try:
        urllib.request.urlopen(f"{address}/healthz", timeout=TIMEOUT).close()
    except OSError as error:
        sys.exit(f"{address} does not answer: {error}")


def served_address(command: list[str]) -> str | None:
    """Where to ask the server that a command line starts; None for one that starts none."""
    programs = [place for place, word in enumerate(command) if Path(word).name == "seq2seq-chat"]
    if not programs or command[programs[0] + 1 : programs[0] + 2] != ["serve"]:
        return None
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--port", default="9001")
    port = options.parse_known_args(command[programs[0] + 2 :])[0].port
    return f"http://127.0.0.1:{port}"


if __name__ == "__main__":
    main()
