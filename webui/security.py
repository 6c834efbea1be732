"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

import hmac
import ipaddress
from typing import Optional
from urllib.parse import urlsplit

from flask import Flask, Response, request

from webui.api import fault
from webui.state import State

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",  # Bootstrap's icons lie in its style sheet, a report's pictures come by script
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"
"""For the pages of a report, which are whole in themselves: they are shown, and may do nothing."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
OPEN = {"static", "bootstrap.static", "api.health", "api.openapi"}  # these tell nothing about runs


def is_local(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may begin with anything: 127.0.0.1.example.com
        return host == "localhost"


def guard(app: Flask, state: State) -> None:
    """Refuse other sites and people without the token, and give every answer its headers."""

    @app.before_request
    def refuse() -> Optional[Response]:
        if state.local and not _speaks_to_this_machine():
            return fault("This server answers to localhost only. Open it as http://127.0.0.1 with its port.", 403)
        if _comes_from_another_site():
            return fault("Requests from other sites are not answered.", 403)
        endpoint = request.endpoint or ""
        if state.token is None or endpoint in OPEN or endpoint.startswith("pages."):
            return None
        if not _has_token(state.token):
            refusal = fault("This needs the token that the server printed when it was started.", 401)
            refusal.headers["WWW-Authenticate"] = "Bearer"
            return refusal
        return None

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        for name, value in HEADERS.items():
            response.headers[name] = value
        if request.endpoint not in ("static", "bootstrap.static"):
            response.headers["Cache-Control"] = "no-store"
        return response


def _has_token(token: str) -> bool:
    kind, _, given = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() != "bearer":  # a page of a report is opened by a link, which brings no header
        given = request.args.get("token", "") if request.endpoint == "files.report_file" else ""
    return hmac.compare_digest(given.strip().encode(), token.encode())


def _speaks_to_this_machine() -> bool:
    """False for a name that was bent to this machine by a foreign site (DNS rebinding)."""
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        return False
    return is_local(host)


def _comes_from_another_site() -> bool:
    origin = request.headers.get("Origin")
    if origin is None:
        return request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method != "GET"
    try:
        return urlsplit(origin).netloc != request.host
    except ValueError:
        return True
