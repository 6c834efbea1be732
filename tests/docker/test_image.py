"""The image in use: size, privileges, health, stopping and resuming."""

import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import loopback_addresses
from tests.docker.engine import MEMORY, USER, Engine
from tests.training.test_recovery import arrays, logged_lines

pytestmark = pytest.mark.nightly

STEPS = 150
SETTINGS = {
    **{"data.buckets": "null", "model.encoder_steps": 10, "model.decoder_steps": 10, "training.log_every": 10},
    **{f"training.{every}": STEPS for every in ("steps", "validate_every", "checkpoint_every", "snapshot_every")},
}
CONFIG = ("configs/quickstart.json", *(word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")))
KILLED, TERMINATED = 128 + 9, 128 + 15


@pytest.fixture(scope="module")
def trained(image: Engine) -> Path:
    """An uninterrupted run."""
    output = image.run("train", *CONFIG, "--results", "results/uninterrupted")
    assert re.search(r"^no GPU found: training on \d+ processor cores?; .* --gpus all$", output, re.MULTILINE)
    free = re.search(r"; ([\d.]+) GB available", output)
    assert free and float(free[1]) <= MEMORY / 1e9  # the container's, not the machine's
    (run,) = (image.results / "uninterrupted").iterdir()
    assert output.splitlines()[-1] == f"results/uninterrupted/{run.name}"
    assert run.stat().st_uid == USER
    assert json.loads((run / "environment.json").read_text(encoding="utf-8"))["code"]["revision"] == "a-revision"
    return run


def test_image_has_no_build_tools_or_caches(image: Engine) -> None:
    tools = "for tool in cc gcc g++ ld make; do command -v $tool; done"
    assert image.run("-c", tools, options=("--entrypoint=bash",), check=False) == ""
    caches = "find / -xdev -path '*/.cache/*' -o -name '*.o'; echo done"
    assert image.run("-c", caches, options=("--entrypoint=bash", "--user=0:0")) == "done\n"
    layers = [int(size) for size in image.docker("history", "--human=false", "--format={{.Size}}", image.image).split()]
    assert sorted(layers)[-3] < 10e6, layers  # only the base and the dependencies are large
    assert image.inspect(image.image)["Config"]["User"] not in ("", "0", "root")


def test_stopped_training_resumes_bit_for_bit_in_another_container(image: Engine, trained: Path) -> None:
    container = image.start("train", *CONFIG, "--results", "results/stopped")
    image.wait_for(container, f"step 20 of {STEPS}")
    assert image.wait_for_health(container) == "healthy"
    assert image.stop(container) == TERMINATED
    log = image.log(container)
    assert "seq2seq-chat train --resume results/stopped/" in log
    assert f"step {STEPS} of" not in log
    (run,) = (image.results / "stopped").iterdir()
    (stopped_at,) = sorted((run / "checkpoints").glob("0*.npz"))
    assert 20 <= int(stopped_at.stem) < STEPS

    output = image.run("train", "--resume", "latest", "--results", "results/stopped")
    assert f"from step {int(stopped_at.stem)}" in output
    uninterrupted, resumed = (arrays(folder / "checkpoints" / f"{STEPS:010}.npz") for folder in (trained, run))
    assert len(uninterrupted) > 10
    assert uninterrupted == resumed
    assert logged_lines(trained / "metrics.jsonl") == logged_lines(run / "metrics.jsonl")


def test_training_can_be_stopped_before_its_first_step(image: Engine) -> None:
    container = image.start("train", *CONFIG, "--results", "results/early")
    image.wait_for(container, "parameters")
    assert image.stop(container) not in (0, KILLED)
    assert "Traceback" not in image.log(container)


def test_server_is_healthy_and_requires_the_token(image: Engine, trained: Path) -> None:
    port = free_port()
    token = ("--env=SEQ2SEQ_CHAT_TOKEN=open-sesame",)
    container = image.start("serve", "--port", port, "--results", "results/uninterrupted", options=token)
    address = image.wait_for(container, "(on this machine)").split()[0]
    assert address == f"http://127.0.0.1:{port}/#token=open-sesame"
    assert image.wait_for_health(container) == "healthy"
    with pytest.raises(urllib.error.HTTPError, match="401") as error_info:
        chat(port, "a guess")
    error_info.value.close()
    assert chat(port, "open-sesame")["reply"]
    assert image.stop(container) == 0


def free_port() -> str:
    return loopback_addresses(1)[0].rpartition(":")[2]


def chat(port: str, token: str) -> Any:
    """Greet the server and return its answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/chat",
        json.dumps({"run": "latest", "text": "hello !"}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=240) as answer:
        return json.load(answer)


def test_unresponsive_server_is_unhealthy(image: Engine) -> None:
    """A shell with the command line of a server."""
    options = ("--entrypoint=bash", "--health-start-period=1s", "--health-retries=1")
    container = image.start("-c", "sleep 300; :", "seq2seq-chat", "serve", "--port", free_port(), options=options)
    assert image.wait_for_health(container) == "unhealthy"


def test_checks_pass(image: Engine) -> None:
    """The checks that need memory limits, a figure, or another process."""
    only = [argument for name in ("memory", "gradients", "save-and-load") for argument in ("--only", name)]
    output = image.run("check", "--fast", *CONFIG, *only, "--results", "results/checked")
    assert "all checks passed" in output
    assert list((image.results / "checked").rglob("gradient_norms.png"))
