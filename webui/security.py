"""Access control and security headers."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from flask import Flask, Response, request

from webui.api import error_response
from webui.app_state import get_state

POLICY = (  # Bootstrap's icons are data URLs, report images blobs
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""For the pages of a report, which are self-contained: no scripts, nothing to load."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
STATIC_ENDPOINTS = {"static", "bootstrap.static"}
PUBLIC_ENDPOINTS = STATIC_ENDPOINTS | {"api.health", "api.openapi"}  # no data of runs


def is_local(host: str) -> bool:
    """Whether a server bound to this host is only reachable from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, perhaps one like 127.0.0.1.example.com
        return host == "localhost"


def secure(app: Flask) -> None:
    """Reject cross-site requests and requests without the token; add security headers to every response."""

    @app.before_request
    def check_access() -> Response | None:
        state = get_state()
        if state.local_only and not _is_for_localhost():
            return error_response("This server only accepts requests to localhost; open http://127.0.0.1 instead.", 403)
        if _is_cross_site():
            return error_response("Requests from other sites are not allowed.", 403)
        endpoint = request.endpoint  # None: there is no such page
        if state.token is None or endpoint is None or endpoint in PUBLIC_ENDPOINTS or endpoint.startswith("pages."):
            return None
        if not _has_token(state.token):
            response = error_response("This server requires the token that it printed when it started.", 401)
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        return None

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.update(HEADERS)
        if request.endpoint not in STATIC_ENDPOINTS:
            response.headers["Cache-Control"] = "no-store"
        return response


def _has_token(token: str) -> bool:
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer":  # a form that opens a page of a report cannot send headers
        value = request.form.get("token", "") if request.endpoint == "files.report_file" else ""
    return hmac.compare_digest(value.strip().encode(), token.encode())


def _is_for_localhost() -> bool:
    """Rejects foreign names that resolve to this machine (DNS rebinding)."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return False
    return is_local(host)


def _is_cross_site() -> bool:
    site = request.headers.get("Sec-Fetch-Site")  # is right also behind a proxy, but absent on http from elsewhere
    if site == "same-origin":
        return False
    origin = request.headers.get("Origin")
    if origin is None:
        return site == "cross-site" and request.method != "GET"
    try:
        return urlsplit(origin).netloc != request.host
    except ValueError:
        return True
