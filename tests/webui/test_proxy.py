"""The server behind a reverse proxy, nginx, at a path of a public host."""

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import LIMITS, REPLY_TIMEOUT, open_page, submit
from webui.app import create_app
from webui.server import Proxy, running

TOKEN = "open-sesame"
CONFIGURATION = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /chat/ {{
{proxy}
    }}
  }}
}}
"""


def documented_settings(port: int) -> str:
    """The settings of docs/deployment.md, for another port."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "deployment.md").read_text(encoding="utf-8")
    _, _, block = text.partition("location /chat/ {\n")
    settings, _, _ = block.partition("}\n")
    assert "proxy_pass http://127.0.0.1:9001" in settings
    return settings.replace(":9001", f":{port}")


@contextlib.contextmanager
def nginx(folder: Path, proxy: Callable[[int], str], backend: int) -> Iterator[str]:
    """A proxy for a server; its address."""
    if shutil.which("nginx") is None:
        pytest.skip("there is no nginx; apt-get install nginx")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, proxy=proxy(backend)), encoding="utf-8")
    process = subprocess.Popen(["nginx", "-p", str(folder), "-c", str(file)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert process.poll() is None, "nginx did not start"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError("nginx does not listen")


@pytest.fixture(scope="module")
def proxied(shared_results: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server behind nginx, without /chat."""
    app = create_app(shared_results, LIMITS, TOKEN, local=False)
    folder = tmp_path_factory.mktemp("nginx")
    with (
        running(app, "127.0.0.1", 0, LIMITS, Proxy("/chat", "127.0.0.1")) as server,
        nginx(folder, documented_settings, server.effective_port) as address,
    ):
        yield address


def request(address: str, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=240)
    headers = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): text for name, text in headers.items()}}
    if body is not None:
        headers["Content-Type"] = "application/json"
    with contextlib.closing(connection):
        connection.request(method, path, body and json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, response.read()


def test_requests_with_the_name_of_the_proxy(proxied: str) -> None:
    """As a browser elsewhere sends them on http: with the public name as host and origin."""
    public = {"Host": "models.example", "Origin": "http://models.example"}
    assert request(proxied, "/chat/api/runs", **public)[0] == 200
    body = {"run": "tiny", "text": "you see"}
    assert request(proxied, "/chat/api/chat", "POST", body, **public)[0] == 200
    evil = public | {"Origin": "http://evil.example"}
    assert request(proxied, "/chat/api/chat", "POST", body, **evil)[0] == 403
    assert request(proxied, "/chat/api/runs", Authorization="Bearer wrong")[0] == 401


def test_pages_link_below_the_path(proxied: str) -> None:
    status, page = request(proxied, "/chat/runs")
    assert status == 200
    for address in (b'href="/chat/compare"', b'src="/chat/static/js/theme.js"', b'data-root="/chat"'):
        assert address in page
    assert request(proxied, "/chat/static/js/theme.js")[0] == 200


KEPT = """async () => [localStorage, sessionStorage].flatMap(Object.keys)
    .concat((await indexedDB.databases()).map(({ name }) => name))
    .map((key) => key.replace(/^(token|conversations):/, ""))"""


def test_a_conversation_behind_the_proxy(page: Any, proxied: str, expect: Any) -> None:
    """What it keeps is not that of a server at another path of the host."""
    open_page(page, proxied, f"/chat/#token={TOKEN}")
    submit(page, "you see the tree1 ?")
    expect(page.locator(".message.model .message-text")).not_to_be_empty(timeout=REPLY_TIMEOUT)
    page.get_by_role("link", name="Runs").click()
    page.locator("#runs tbody").get_by_role("link", name="tiny", exact=True).click()
    expect(page.locator("h1")).to_have_text("tiny")
    page.locator("#facts").get_by_role("link", name="Chat").click()
    expect(page.locator("#run")).to_have_value("tiny")
    assert {key.partition(":")[0] for key in page.evaluate(KEPT)} == {"/chat/"}
    assert re.match(f"{proxied}/chat/chat/[0-9a-f]{{24}}\\?run=tiny", page.url)  # that of the conversation


def test_only_the_trusted_proxy_may_name_the_host(shared_results: Path, tmp_path: Path) -> None:
    app = create_app(shared_results, LIMITS)
    with running(app, "127.0.0.1", 0, LIMITS, Proxy("/chat", "192.0.2.7")) as server:
        backend = f"http://127.0.0.1:{server.effective_port}"
        assert request(backend, "/chat/api/runs", X_Forwarded_Host="models.example")[0] == 200  # ignored
        assert request(backend, "/chat/api/runs", Host="models.example", X_Forwarded_Host="localhost")[0] == 403


@pytest.mark.parametrize("options", [("--root-path", "chat"), ("--root-path", "/a b"), ("--trusted-proxy", "nginx")])
def test_invalid_options(cli: Callable[..., Any], shared_results: Path, options: tuple[str, str]) -> None:
    assert options[0] in cli("serve", "--results", shared_results, *options).error_message
