"""The image in use: size, privileges, health, stopping and resuming, and the commands of docs/docker.md."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.docker.engine import DEADLINE, MEMORY, REPOSITORY, USER, Engine
from tests.test_readme import commands_of
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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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


def chat(port: int, token: str) -> Any:
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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ("--entrypoint=bash", "--health-start-period=1s", "--health-retries=1")
    container = image.start("-c", "sleep 300; :", "seq2seq-chat", "serve", "--port", port, options=options)
    assert image.wait_for_health(container) == "unhealthy"


def test_checks_pass(image: Engine) -> None:
    """The checks that need memory limits, a figure, or another process."""
    only = [argument for name in ("memory", "gradients", "save-and-load") for argument in ("--only", name)]
    output = image.run("check", "--fast", *CONFIG, *only, "--results", "results/checked")
    assert "all checks passed" in output
    assert list((image.results / "checked").rglob("gradient_norms.png"))


SMALL = {
    "model.hidden_size": 8,
    "model.embedding_size": 8,
    "model.projection_size": 8,
    "model.encoder_steps": 6,
    "model.decoder_steps": 6,
    "training.batch_size": 4,
    "training.sampled_softmax": "null",
    "training.steps": 2,
}
VOCABULARY = ["<pad>", "<go>", "<eos>", "<unknown>", "hello", "how", "are", "you", "!", "?"]
STAND_IN = f"""#!/bin/bash
# docker with what this engine lacks removed (GPUs, a network, 3 GB of CUDA) or replaced (the base image)
docker={shutil.which("docker")}
words=() extra=() skipped= verb=
for word in "$@"; do
    if [[ -n "$skipped" ]]; then skipped= && continue; fi
    case "$word" in
        --gpus | -p | --build-arg) skipped="$word" && continue ;;
        train | check | serve) verb="$word" ;;
    esac
    words+=("$word")
done
case "$verb" in
    train) extra=({" ".join(f"--set {key}={value}" for key, value in SMALL.items())}) ;;
    check) extra=(--fast --only memory) ;;
    serve) extra=(--port 0) ;;
esac
case "$1" in
    build) extra=(--build-arg=BASE_IMAGE=base --build-arg=REVISION=a-revision) ;;&
    build | run) exec "$docker" "$1" --network=host "${{words[@]:1}}" "${{extra[@]}}" ;;
esac
exit 2
"""


def test_documented_commands_work(image: Engine, tmp_path: Path) -> None:
    """The commands of docs/docker.md, with a small model and without what the engine lacks."""
    texts = [command.text for command in commands_of(REPOSITORY / "docs" / "docker.md")]
    commands = [text for text in texts if re.match(r"docker (build|run) ", text)]
    verbs = [re.findall(r"build|train|serve|check", text)[0] for text in commands]
    assert verbs == ["build", "train", "serve", "check"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text(STAND_IN, encoding="utf-8")
    (tmp_path / "bin" / "docker").chmod(0o755)
    environment = image.environment | {"PATH": f"{tmp_path / 'bin'}:{image.environment['PATH']}"}
    folder = tmp_path / "reader"
    corpus = folder / "data" / "reddit"
    corpus.mkdir(parents=True)
    for part in ("train", "validation"):
        (corpus / f"{part}.txt").write_text("hello !\nhow are you ?\n" * 20, encoding="utf-8")
    (corpus / "vocabulary.txt").write_text("\n".join(VOCABULARY) + "\n", encoding="utf-8")
    for text in commands:
        where = REPOSITORY if text.startswith("docker build") else folder
        with subprocess.Popen(
            ["timeout", str(DEADLINE), "bash", "-euc", text],
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                served = any(earlier.startswith("http://") for earlier in lines)  # there may be several addresses
                lines.append(line)
                if line.startswith("http://") and not served:
                    image.docker("stop", image.docker("ps", "--latest", "--quiet").strip())
        assert process.returncode == 0, text + "\n" + "".join(lines)
    assert list((folder / "results").glob("*_thesis_reddit/end.json"))
