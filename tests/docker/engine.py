"""Containers as an ordinary user starts them, with as few rights as can be."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
USER = 4321  # has no name in the image, owns nothing in it
MEMORY = 2_000_000_000
LEAST_RIGHTS = (
    *("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
    *(f"--memory={MEMORY}", f"--user={USER}:{USER}"),
)
DEADLINE = 900  # seconds that anything in a container may take


class Engine:
    """A running engine, and a folder that its containers have as ``results``.

    Containers share the network of the machine: a stand-in has none of its own.
    """

    def __init__(self, environment: dict[str, str], results: Path) -> None:
        self.environment, self.results = environment, results
        self.image = "seq2seq-chat"

    def docker(self, *arguments: object, timeout: float = DEADLINE, check: bool = True) -> str:
        """What a docker command prints."""
        command = ["docker", *map(str, arguments)]
        done = subprocess.run(
            command,
            cwd=REPOSITORY,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *arguments: object, options: tuple[str, ...] = (), check: bool = True) -> str:
        """What the program prints in a container that is gone afterwards."""
        return self.docker("run", "--rm", *self._options(options), self.image, *arguments, check=check)

    def start(self, *arguments: object, options: tuple[str, ...] = ()) -> str:
        """A container that goes on running; its health is looked at every second."""
        options = ("--health-interval=1s", *options)
        return self.docker("run", "--detach", *self._options(options), self.image, *arguments).strip()

    def _options(self, more: tuple[str, ...]) -> list[str]:
        return ["--network=host", *LEAST_RIGHTS, f"--volume={self.results}:/app/results", *more]

    def wait_for(self, container: str, text: str) -> str:
        """The first line of a container's log that has a text in it."""
        return self._first_line(["docker", "logs", "--follow", container], text)

    def wait_for_health(self, container: str) -> str:
        """``healthy`` or ``unhealthy``, when it is known."""
        watch = ["docker", "events", "--since=10m", f"--filter=container={container}", "--filter=event=health_status"]
        return self._first_line([*watch, "--format={{.Status}}"], "health_status: ").split(": ")[1].strip()

    def _first_line(self, command: list[str], text: str) -> str:
        with subprocess.Popen(
            ["timeout", str(DEADLINE), *command],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            seen = []
            try:
                for line in process.stdout:
                    seen.append(line)
                    if text in line:
                        return line
            finally:
                process.kill()
        pytest.fail(f"{' '.join(command)} ended without {text!r}:\n{''.join(seen)}")

    def stop(self, container: str) -> int:
        """``docker stop``, as a person types it; the exit status."""
        self.docker("stop", container)
        return int(self.inspect(container)["State"]["ExitCode"])

    def log(self, container: str) -> str:
        """All that a container printed, errors among it."""
        command = ["docker", "logs", container]
        streams: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.run(command, env=self.environment, text=True, check=True, timeout=240, **streams).stdout

    def inspect(self, thing: str) -> Any:
        return json.loads(self.docker("inspect", thing))[0]
