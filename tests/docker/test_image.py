"""The image in use: small, without rights, healthy, stopped and gone on with, talked to."""

from __future__ import annotations

import json
import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.docker.engine import MEMORY, USER, Engine
from tests.training.test_recovery import arrays, reported

pytestmark = pytest.mark.slow

STEPS = 150
SETTINGS = {
    **{"data.buckets": "null", "model.encoder_steps": 10, "model.decoder_steps": 10, "training.log_every": 10},
    **{f"training.{every}": STEPS for every in ("steps", "validate_every", "checkpoint_every", "snapshot_every")},
}
CONFIG = ("configs/quickstart.json", *(word for key, value in SETTINGS.items() for word in ("--set", f"{key}={value}")))
KILLED, TERMINATED = 128 + 9, 128 + 15


@pytest.fixture(scope="module")
def trained(image: Engine) -> Path:
    """A run that was trained without a break."""
    said = image.run("train", *CONFIG, "--results", "results/whole")
    assert re.search(r"^no GPU found: training on \d+ processor cores?; .* --gpus all$", said, re.MULTILINE)
    free = re.search(r"; ([\d.]+) GB are free", said)
    assert free and float(free[1]) <= MEMORY / 1e9  # the container's, not the machine's
    (run,) = (image.results / "whole").iterdir()
    assert said.splitlines()[-1] == f"results/whole/{run.name}"
    assert run.stat().st_uid == USER
    assert json.loads((run / "environment.json").read_text(encoding="utf-8"))["code"]["revision"] == "a-revision"
    return run


def test_no_tools_and_no_caches_are_left(image: Engine) -> None:
    tools = "for tool in cc gcc g++ ld make; do command -v $tool; done"
    assert image.run("-c", tools, options=("--entrypoint=bash",), check=False) == ""
    caches = "find / -xdev -path '*/.cache/*' -o -name '*.o'; echo looked"
    assert image.run("-c", caches, options=("--entrypoint=bash", "--user=0:0")) == "looked\n"
    layers = [int(size) for size in image.docker("history", "--human=false", "--format={{.Size}}", image.image).split()]
    assert sorted(layers)[-3] < 10e6, layers  # the base, the dependencies; the program is small and apart from them
    assert image.inspect(image.image)["Config"]["User"] not in ("", "0", "root")


def test_a_training_stopped_goes_on_in_another_container_to_the_same_bits(image: Engine, trained: Path) -> None:
    container = image.start("train", *CONFIG, "--results", "results/stopped")
    image.wait_for(container, f"step 20 of {STEPS}")
    assert image.wait_for_health(container) == "healthy"
    assert image.stop(container) == TERMINATED
    said = image.log(container)
    assert "go on with: seq2seq-chat train --resume results/stopped/" in said
    assert f"step {STEPS} of" not in said
    (run,) = (image.results / "stopped").iterdir()
    (stopped_at,) = sorted((run / "checkpoints").glob("0*.npz"))
    assert 20 <= int(stopped_at.stem) < STEPS

    said = image.run("train", "--resume", "latest", "--results", "results/stopped")
    assert f"going on from step {int(stopped_at.stem)}" in said
    whole, resumed = (arrays(folder / "checkpoints" / f"{STEPS:010}.npz") for folder in (trained, run))
    assert len(whole) > 10
    assert whole == resumed
    assert reported(trained / "metrics.jsonl") == reported(run / "metrics.jsonl")


def test_a_training_can_be_stopped_before_its_first_step(image: Engine) -> None:
    container = image.start("train", *CONFIG, "--results", "results/early")
    image.wait_for(container, "parameters")
    assert image.stop(container) not in (0, KILLED)
    assert "Traceback" not in image.log(container)


def test_the_page_is_healthy_and_answers_who_knows_the_token(image: Engine, trained: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = ("--env=SEQ2SEQ_CHAT_TOKEN=open-sesame",)
    container = image.start("serve", "--port", port, "--results", "results/whole", options=token)
    address = image.wait_for(container, "http://").split()[0]
    assert address == f"http://127.0.0.1:{port}/#token=open-sesame"
    assert image.wait_for_health(container) == "healthy"
    with pytest.raises(urllib.error.HTTPError, match="401") as refusal:
        chat(port, "a guess")
    refusal.value.close()
    assert chat(port, "open-sesame")["reply"]
    assert image.stop(container) == 0


def chat(port: int, token: str) -> Any:
    """The server's answer to a greeting."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/chat",
        json.dumps({"run": "latest", "text": "hello !"}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def test_a_server_that_does_not_answer_is_unhealthy(image: Engine) -> None:
    """A shell that is called like the server and is none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--entrypoint=bash", "--health-start-period=1s", "--health-retries=1")
    container = image.start("-c", "sleep 300; :", "seq2seq-chat", "serve", "--port", port, options=options)
    assert image.wait_for_health(container) == "unhealthy"


def test_the_checks_pass(image: Engine) -> None:
    """Those that need more than arithmetic: memory, a picture, another process."""
    only = [argument for name in ("memory", "gradients", "save-and-load") for argument in ("--only", name)]
    said = image.run("check", "--fast", *CONFIG, *only, "--results", "results/checked")
    assert "all checks passed" in said
    assert list((image.results / "checked").rglob("gradient_norms.png"))
