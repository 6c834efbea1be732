"""The size of a page load, and what is compressed."""

import gzip
import re
from urllib.parse import urljoin

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

GZIP = {"Accept-Encoding": "gzip", "Accept": "text/html"}
MAX_LOAD = 200_000  # bytes
LINKS = re.compile(
    r'(?:<script[^>]* src|<link[^>]* href|<img[^>]* src)="([^"]+)"|^import [^"]*"(\./[^"]+)";', re.MULTILINE
)


def get(client: FlaskClient, path: str, **headers: str) -> TestResponse:
    with client.get(path, headers=GZIP | headers) as response:
        response.get_data()
    return response


def load(client: FlaskClient, path: str, loaded: dict[str, int]) -> None:
    """Load a file and all that it refers to, once each; the number of bytes that are transferred for each."""
    response = get(client, path)
    assert response.status_code == 200, path
    loaded[path] = len(response.data)
    text = (gzip.decompress(response.data) if response.content_encoding == "gzip" else response.data).decode()
    for link in (urljoin(path, one or other) for one, other in LINKS.findall(text)):
        if link not in loaded:
            load(client, link, loaded)


@pytest.mark.parametrize(
    "path", ["/", "/translate", "/write", "/compare", "/judge", "/judge/one", "/search", "/talk", "/runs", "/runs/tiny"]
)
def test_the_size_of_a_page_load(shared_client: FlaskClient, path: str) -> None:
    loaded: dict[str, int] = {}
    load(shared_client, path, loaded)
    assert len(loaded) > 8
    assert any(file.endswith("dom.js") for file in loaded)  # which scripts import
    assert sum(loaded.values()) <= MAX_LOAD, loaded


def test_an_unchanged_file_is_not_sent_again(shared_client: FlaskClient) -> None:
    first = get(shared_client, "/static/style.css")
    assert first.content_encoding == "gzip"
    etag = first.headers["ETag"]
    assert get(shared_client, "/static/style.css", **{"If-None-Match": etag}).status_code == 304
    assert get(shared_client, "/static/style.css", **{"If-None-Match": '"other"'}).status_code == 200


def test_streams_are_not_compressed(shared_client: FlaskClient) -> None:
    with shared_client.get("/api/events", headers=GZIP, buffered=False) as response:
        assert next(iter(response.iter_encoded())).startswith(b"event: runs\ndata: {")
    assert response.content_encoding is None
