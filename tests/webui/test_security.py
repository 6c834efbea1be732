"""Access control and security headers."""

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from tests.webui.conftest import MakeClient
from webui.security import is_local

WEBUI = Path(__file__).resolve().parents[2] / "webui"
PAGES = ["/", "/write", "/compare", "/runs", "/runs/tiny"]
DATA = ["/api/runs", "/api/runs/tiny", "/files/tiny/report.png", "/metrics"]
CHAT = {"run": "tiny", "text": "you see"}


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/healthz", "/nothing", "/api/nothing", "/static/style.css"])
def test_every_response_has_security_headers(shared_client: FlaskClient, path: str) -> None:
    with shared_client.get(path) as response:
        headers = response.headers
    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in headers
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("path", PAGES)
def test_pages_load_only_local_files_and_have_nothing_inline(shared_client: FlaskClient, path: str) -> None:
    text = shared_client.get(path, headers={"Accept": "text/html"}).text
    for address in re.findall(r'(?:src|href)="([^"]*)"', text):
        assert address.startswith(("/", "#")) and not address.startswith("//")
        if address.startswith(("/static/", "/bootstrap/")):
            with shared_client.get(address) as response:
                assert response.status_code == 200
    assert not re.search(r"<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=", text)


def test_scripts_never_parse_html_or_contact_other_servers() -> None:
    scripts = sorted((WEBUI / "static" / "js").glob("*.js"))
    assert len(scripts) > 8
    for script in scripts:
        text = script.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
        assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}
        assert "document.cookie" not in text


def test_data_requires_the_token(make_client: MakeClient) -> None:
    client = make_client(token="open-sesame")
    for path in DATA:
        response = client.get(path)
        assert response.status_code == 401
        assert "token" in response.get_json()["error"]
        for wrong in ("Bearer", "Bearer ", "Bearer open", "Basic open-sesame", "open-sesame", "Bearer \xf6pen"):
            assert client.get(path, headers={"Authorization": wrong}).status_code == 401
        assert client.get(path, headers={"Authorization": "Bearer open-sesame"}).status_code != 401
    assert client.post("/api/chat", json=CHAT).status_code == 401
    assert client.post("/api/chat", json=CHAT, headers={"Authorization": "Bearer open-sesame"}).status_code == 200
    assert client.get("/nothing").status_code == 404
    assert client.get("/api/runs?token=open-sesame").status_code == 401  # URLs end up in logs
    assert client.get("/files/tiny/report.png?token=open-sesame").status_code == 401
    for token, status in (("open-sesame", 404), ("open", 401)):  # of a form that opens a page of a report
        assert client.post("/files/tiny/report.png", data={"token": token}).status_code == status


def test_pages_and_health_check_have_no_data_and_need_no_token(make_client: MakeClient) -> None:
    client = make_client(token="secret")
    for path in [*PAGES, "/healthz", "/api/openapi.json", "/static/style.css"]:
        with client.get(path) as response:
            assert response.status_code == 200
            assert "secret" not in response.text
            assert "tiny" not in response.text


LOCAL = ["localhost", "localhost:9001", "127.0.0.1:80", "127.1.2.3", "[::1]:9001"]
FOREIGN = [
    *("evil.example", "evil.example:9001", "10.0.0.1", "", "[", "a b", "127.0.0.1.evil.example"),
    *("localhost.evil.example", "evillocalhost", "evil.example:localhost", "localhost@evil.example"),
]


@pytest.mark.parametrize("host", [*LOCAL, *FOREIGN])
def test_only_local_host_names_are_accepted(shared_client: FlaskClient, host: str) -> None:
    status = shared_client.get("/api/runs", headers={"Host": host}).status_code
    assert status == 200 if host in LOCAL else status in (400, 403)


def test_a_public_server_accepts_any_host_name(make_client: MakeClient) -> None:
    client = make_client(token="secret", local=False)
    headers = {"Host": "models.example", "Authorization": "Bearer secret"}
    assert client.get("/api/runs", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "http://[", ""])
def test_requests_from_other_sites_are_rejected(shared_client: FlaskClient, origin: str) -> None:
    assert shared_client.post("/api/chat", json=CHAT, headers={"Origin": origin}).status_code == 403
    assert shared_client.post("/api/chat", json=CHAT, headers={"Origin": "http://localhost"}).status_code == 200


def test_hosts_that_are_reachable_from_this_machine_only() -> None:
    assert all(map(is_local, ("127.0.0.1", "localhost", "::1")))
    others = ("0.0.0.0", "::", "192.168.1.5", "localhost.evil.example", "127.0.0.1.evil.example")
    assert not any(map(is_local, others))
