"""Containers as an ordinary user starts them, with minimal privileges."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
USER = 4321  # unknown in the image, owns nothing in it
MEMORY = 2_000_000_000
MINIMAL_PRIVILEGES = (
    *("--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges"),
    *(f"--memory={MEMORY}", f"--user={USER}:{USER}"),
)
DEADLINE = 900  # seconds
BOTH_STREAMS: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


class Engine:
    """A running engine, and the folder that its containers mount as ``results``.

    Containers use the network of the host: a test engine has none of its own.
    """

    image = "seq2seq-chat"

    def __init__(self, environment: dict[str, str], results: Path) -> None:
        self.environment, self.results = environment, results

    def docker(self, *arguments: object, timeout: float = DEADLINE, check: bool = True) -> str:
        """Run a docker command and return its output."""
        command, streams = ["docker", *map(str, arguments)], {"stdin": subprocess.DEVNULL, "capture_output": True}
        common: Any = {"cwd": REPOSITORY, "env": self.environment, "text": True, "timeout": timeout, **streams}
        result = subprocess.run(command, check=False, **common)
        assert not check or result.returncode == 0, result.stdout + result.stderr
        return str(result.stdout)

    def run(self, *arguments: object, options: tuple[str, ...] = (), check: bool = True) -> str:
        """Run the program in a container that is removed afterwards, and return its output."""
        return self.docker("run", "--rm", *self._options(options), self.image, *arguments, check=check)

    def start(self, *arguments: object, options: tuple[str, ...] = ()) -> str:
        """Start a container in the background, with a health check every second; return its id."""
        options = ("--health-interval=1s", *options)
        return self.docker("run", "--detach", *self._options(options), self.image, *arguments).strip()

    def _options(self, extra: tuple[str, ...]) -> list[str]:
        return ["--network=host", *MINIMAL_PRIVILEGES, f"--volume={self.results}:/app/results", *extra]

    def wait_for(self, container: str, text: str) -> str:
        """Wait for a line with a text in a container's log, and return it."""
        return self._first_line(["docker", "logs", "--follow", container], text)

    def wait_for_health(self, container: str) -> str:
        """Wait for the first health check: ``healthy`` or ``unhealthy``."""
        watch = ["docker", "events", "--since=10m", f"--filter=container={container}", "--filter=event=health_status"]
        return self._first_line([*watch, "--format={{.Status}}"], "health_status: ").split(": ")[1].strip()

    def _first_line(self, command: list[str], text: str) -> str:
        command, lines = ["timeout", str(DEADLINE), *command], []
        with subprocess.Popen(command, env=self.environment, text=True, **BOTH_STREAMS) as process:
            try:
                for line in process.stdout:
                    lines.append(line)
                    if text in line:
                        return str(line)
            finally:
                process.kill()
        pytest.fail(f"{' '.join(command)} ended without {text!r}:\n{''.join(lines)}")

    def stop(self, container: str) -> int:
        """Run ``docker stop`` and return the container's exit status."""
        self.docker("stop", container)
        return int(self.inspect(container)["State"]["ExitCode"])

    def log(self, container: str) -> str:
        """Standard output and error of a container."""
        command = ["docker", "logs", container]
        return str(subprocess.run(command, env=self.environment, text=True, check=True, **BOTH_STREAMS).stdout)

    def inspect(self, name: str) -> Any:
        return json.loads(self.docker("inspect", name))[0]
