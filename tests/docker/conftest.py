"""An engine of our own, with the image built on a stand-in for the base."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.engine import USER, Engine

TOOL = "SEQ2SEQ_CHAT_DOCKER_ENGINE"
"""Names a program: ``start DIR`` starts an engine with everything below a folder and prints the shell's exports that
lead to it, ``base NAME`` makes an image of a Debian with Python in it, ``stop DIR`` ends the engine."""
NEEDED = ("docker", "dockerd", "mmdebstrap")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A running engine; everything of it is gone afterwards."""
    tool = os.environ.get(TOOL)
    if not tool:
        pytest.skip(f"{TOOL} names no program that starts a Docker engine")
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"there is no {', '.join(missing)}" if missing else "only root can start a Docker engine")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # short, as it holds a socket
    # Ends the engine when its input ends: when the tests are done, and when they are killed.
    ender = ["sh", "-c", 'cat; "$0" stop "$1/docker"; rm -rf "$1"', tool, str(folder)]
    with subprocess.Popen(ender, stdin=subprocess.PIPE, start_new_session=True):
        command = [tool, "start", str(folder / "docker")]
        started = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
        assert started.returncode == 0, started.stderr
        exports = started.stdout.split()[1:]  # export NAME=VALUE NAME=VALUE
        results = folder / "results"
        results.mkdir()
        os.chown(results, USER, USER)
        folder.chmod(0o755)
        engine = Engine(os.environ | dict(export.split("=", 1) for export in exports), results)
        yield engine
        for container in engine.docker("ps", "--all", "--quiet").split():
            engine.docker("rm", "--force", "--volumes", container)


@pytest.fixture(scope="module")
def image(engine: Engine) -> Engine:
    """The engine, which has the image."""
    tool = os.environ[TOOL]
    subprocess.run([tool, "base", "base"], env=engine.environment, stdout=subprocess.DEVNULL, check=True, timeout=1200)
    options = ("--network=host", "--build-arg=BASE_IMAGE=base", "--build-arg=REVISION=a-revision")
    engine.docker("build", *options, "--tag", engine.image, "--file=docker/Dockerfile", ".", timeout=1800)
    return engine
