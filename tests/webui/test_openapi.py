"""The OpenAPI document matches the server, also according to schemathesis."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from webui.run_details import RunPage
from webui.schemas import ChatReply, ChatRequest, GenerateRequest

API_ENDPOINTS = ("api.", "evaluations.", "openai.", "searches.", "workbench.")


def test_document_has_all_routes_and_fields(shared_client: FlaskClient) -> None:
    document = shared_client.get("/api/openapi.json").get_json()
    rules = shared_client.application.url_map.iter_rules()
    routes = {re.sub("<(.*?)>", r"{\1}", rule.rule) for rule in rules if rule.endpoint.startswith(API_ENDPOINTS)}
    assert set(document["paths"]) == routes - {"/api/openapi.json"}
    schemas = document["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))) <= set(schemas)
    for model in (ChatRequest, ChatReply, GenerateRequest, RunPage):
        assert set(schemas[model.__name__]["properties"]) == set(model.model_fields)
    fields = schemas["SearchRequest"]["properties"]
    assert set(fields) == set(ChatRequest.model_fields)
    assert fields["text"]["maxLength"] == 10_000
    assert schemas["GenerateRequest"]["properties"]["length"]["maximum"] == 5_000
    assert schemas["ChatRequest"]["required"] == ["run", "text"]
    assert fields["decoding"]["additionalProperties"] is False
    assert fields["decoding"]["properties"]["beam_width"]["maximum"] == 100
    for path, status in (("/api/runs/{name}", "400"), ("/api/evaluations/{name}", "503")):  # ambiguous; a package
        assert status in document["paths"][path]["get"]["responses"]
    run = shared_client.get("/api/runs/tiny").get_json()
    assert RunPage.model_validate(run).model_dump() == run
    line = shared_client.get("/api/runs").get_json()["runs"][0]
    assert set(line) == set(schemas["Run"]["properties"])


SETTINGS = """
[generation]
max-examples = 150

# a schema cannot express that n_best must not exceed beam_width: such a request gets a 400
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "413", "503"]

# by default schemathesis does not accept 413 as a rejection
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "409", "413", "5xx"]
"""


@pytest.mark.slow
def test_schemathesis_finds_only_a_wrong_schema(shared_server: str, shared_client: FlaskClient, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
    result = _schemathesis(shared_server, tmp_path, f"{shared_server}/api/openapi.json")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]
    document: Any = shared_client.get("/api/openapi.json").get_json()
    count = sum(map(len, document["paths"].values()))
    assert f"Selected: {count - 1}/{count}" in result.stdout, result.stdout
    assert "generated" in result.stdout
    document["components"]["schemas"]["Run"]["properties"]["step"] = {"type": "string"}
    document["servers"] = [{"url": shared_server}]
    (tmp_path / "wrong.json").write_text(json.dumps(document), encoding="utf-8")
    (tmp_path / "schemathesis.toml").unlink()
    result = _schemathesis(shared_server, tmp_path, str(tmp_path / "wrong.json"))
    assert result.returncode == 1, result.stdout[-4000:]


def _schemathesis(server: str, folder: Path, document: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("schemathesis", reason="schemathesis is not installed; ./test.sh -m slow installs it")
    command = [sys.executable, "-m", "schemathesis.cli", "run", document, "--url", server, "--checks", "all"]
    command += ["--exclude-path", "/api/events"]  # a stream without an end
    command += ["--seed", "1", "--no-color", "--generation-database", "none"]
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "120"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
