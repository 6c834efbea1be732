"""A Docker engine for the tests, with the image built on a substitute for its base."""

import faulthandler
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.engine import USER, Engine

TOOL = "SEQ2SEQ_CHAT_DOCKER_ENGINE"
"""Environment variable with a program: ``start DIR`` starts an engine with all of its files in a folder and prints the
shell exports to use it, ``base NAME`` creates an image of Debian with Python, ``stop DIR`` stops the engine."""
REQUIRED_COMMANDS = ("docker", "dockerd", "mmdebstrap")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """A running engine; it is removed completely afterwards."""
    tool = os.environ.get(TOOL)
    if not tool:
        pytest.skip(f"{TOOL} is not set to a program that starts a Docker engine")
    missing = [name for name in REQUIRED_COMMANDS if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"{', '.join(missing)} is missing" if missing else "only root can start a Docker engine")
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # short: it contains a socket
    # Stops the engine when its input is closed, so also when the tests are killed.
    watcher = ["sh", "-c", 'cat; "$0" stop "$1/docker"; rm -rf "$1"', tool, str(folder)]
    with subprocess.Popen(watcher, stdin=subprocess.PIPE, start_new_session=True):
        command = [tool, "start", str(folder / "docker")]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
        assert result.returncode == 0, result.stderr
        exports = result.stdout.split()[1:]  # export NAME=VALUE NAME=VALUE
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
    """The engine with the image built."""
    return build(engine)


@pytest.fixture(scope="module")
def gpu_image(engine: Engine) -> Engine:
    """The engine with the image for GPUs built, which downloads 3 GB."""
    return build(engine, "--build-arg=EXTRAS=cuda")


def build(engine: Engine, *options: str) -> Engine:
    """Build the image on the substitute for its base."""
    faulthandler.cancel_dump_traceback_later()  # a build may take longer than a test; each command has its own limit
    tool = os.environ[TOOL]
    subprocess.run([tool, "base", "base"], env=engine.environment, stdout=subprocess.DEVNULL, check=True, timeout=1200)
    shared = ("--network=host", "--build-arg=BASE_IMAGE=base", "--build-arg=REVISION=a-revision")
    engine.docker("build", *shared, *options, "--tag", engine.image, "--file=docker/Dockerfile", ".", timeout=3600)
    return engine
