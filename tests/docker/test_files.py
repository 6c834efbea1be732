"""The health check and the compose files."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKER = REPOSITORY / "docker"


@pytest.mark.parametrize(
    ("command", "address"),
    [
        ("/venv/bin/python /venv/bin/seq2seq-chat serve", "http://127.0.0.1:9001"),
        ("docker-init -- seq2seq-chat serve --models 2 --port 80 --token a", "http://127.0.0.1:80"),
        ("seq2seq-chat serve --port=8080", "http://127.0.0.1:8080"),
        ("seq2seq-chat train serve --set training.steps=3", None),
        ("seq2seq-chat", None),
        ("tensorboard serve --port 6006", None),
        ("bash", None),
    ],
)
def test_health_check_queries_servers_only(command: str, address: str | None) -> None:
    specification = importlib.util.spec_from_file_location("healthcheck", DOCKER / "healthcheck.py")
    assert specification and specification.loader
    healthcheck = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(healthcheck)
    assert healthcheck.served_address([*command.split(), ""]) == address


def compose_services(*files: str, **variables: str) -> dict[str, Any]:
    """Services of compose files as docker-compose reads them."""
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("docker-compose is not installed")
    options = [option for name in files for option in ("--file", str(DOCKER / name))]
    command = [program, *options, "--profile", "train", "config"]
    environment = os.environ | variables
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert (result.returncode, result.stderr) == (0, "")
    return yaml.safe_load(result.stdout)["services"]


def test_services_have_minimal_privileges() -> None:
    services = compose_services("compose.yaml", RESULTS="./mine", CONTAINER_USER="12:34")
    assert set(services) == {"train", "web", "tensorboard"}
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["user"] == "12:34"
        assert "docker/mine" in str(service["volumes"])  # relative to the compose file
        assert "seq2seq-chat-data" in str(service["volumes"]) or "data:/app/data" in str(service["volumes"])
        assert all("127.0.0.1" in str(port) for port in service.get("ports", []))
        assert "deploy" not in service
        assert "EXTRAS" not in service["build"]["args"]


def test_gpus_are_for_training_and_web() -> None:
    services = compose_services("compose.yaml", "compose.gpu.yaml")
    assert {name for name, service in services.items() if "nvidia" in str(service.get("deploy"))} == {"train", "web"}
    assert services["train"]["entrypoint"] == ["seq2seq-chat", "train"]
    for service in services.values():
        assert (service["image"], service["build"]["args"]["EXTRAS"]) == ("seq2seq-chat:gpu", "cuda")
