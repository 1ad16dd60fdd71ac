"""The web app: one page, and the built files that it loads.

`make setup` builds them from `web/` into the package's own directory `web`. The page is the
same for every caller and contains no data: everything else comes through the API. Its policy
allows scripts of this server only, and style elements that carry the nonce of this response.
"""

import asyncio
import gzip
import re
import secrets
from functools import lru_cache
from pathlib import Path

from fastapi import APIRouter, Request, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from hutch.gateway.auth.one_time_link_page import HEADERS as STATIC_HEADERS
from hutch.gateway.auth.one_time_link_page import NOT_BUILT
from hutch.gateway.gateway_context import Server
from hutch.gateway.metrics import PAGE, SEEN

routes = APIRouter(include_in_schema=False)

BUILT = Path(__file__).parents[1] / "web"
NONCE, THEME = "__NONCE__", 'data-theme="auto"'
# Addresses of pages; others that a browser opens get the same page, which says that there is nothing.
PAGES = re.compile(
    r"/(?:(?:s|c)/[^/]+(?:/play|/time)?|tasks(?:/[^/]+)?|settings(?:/[^/]+)?|new|changes|record|start|login|invite|design"
    r"|analytics|activity|interviews(?:/new|/compare/[^/]+)?|i/[^/]+(?:/assess|/report)?)?"
)
NOT_PAGES = re.compile(r"/(?:api|assets|mcp|preview|metrics|healthz|readyz|link)(?:/|$)|/[^/]+\.\w+$")
ASSET = re.compile(r"[\w-][\w.-]*\.(js|css|woff2|svg|png)")
MEDIA_TYPES = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "woff2": "font/woff2",
    "svg": "image/svg+xml",
    "png": "image/png",
}
MIN_COMPRESSED_BYTES = 1024


class PageOrNotFound:
    """Answers requests that no route matches: a browser that opens a page gets the app."""

    def __init__(self, not_found: ASGIApp) -> None:
        self._not_found = not_found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD") or not _opens_page(scope):
            await self._not_found(scope, receive, send)
            return
        if (seen := scope.get(SEEN)) is not None:
            seen[0] = PAGE
        response = await _page(Request(scope), 200 if PAGES.fullmatch(scope["path"]) else 404)
        await response(scope, receive, send)


@routes.get("/")
async def home(request: Request) -> Response:
    """The page that a browser opens first."""
    return await _page(request, 200)


@routes.get("/assets/{name}")
async def asset(name: str, request: Request) -> Response:
    """A built file. Its name contains a hash of its content, so it never changes."""
    kind = ASSET.fullmatch(name)
    if kind is None:
        raise HTTPException(404)
    try:
        plain, compressed = await asyncio.to_thread(_load, BUILT / "assets", name)
    except FileNotFoundError:
        raise HTTPException(404) from None
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(compressed, media_type=MEDIA_TYPES[kind[1]], headers=headers)
    return Response(plain, media_type=MEDIA_TYPES[kind[1]], headers=headers)


def _opens_page(scope: Scope) -> bool:
    accepted = Headers(scope=scope).get("accept", "")
    return "text/html" in accepted and not NOT_PAGES.match(scope["path"])


async def _page(request: Request, status: int) -> Response:
    try:
        page = await asyncio.to_thread((BUILT / "index.html").read_text, "utf-8")
    except FileNotFoundError:
        return Response(NOT_BUILT, 503, STATIC_HEADERS, "text/html; charset=utf-8")
    nonce = secrets.token_urlsafe(16)
    page = page.replace(NONCE, nonce)
    if (theme := request.cookies.get("hutch_theme")) in ("light", "dark"):
        page = page.replace(THEME, f'data-theme="{theme}"', 1)
    return Response(page, status, _headers(request, nonce), "text/html; charset=utf-8")


def _headers(request: Request, nonce: str) -> dict[str, str]:
    policy = (
        "default-src 'none'; script-src 'self'; "
        f"style-src 'self' 'nonce-{nonce}'; style-src-elem 'self' 'nonce-{nonce}'; "
        # Terminals and carets of editors position text by attributes; nothing is loaded by them.
        "style-src-attr 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
        f"worker-src 'self'; frame-src {_preview_sources(request)}; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
    }


def _preview_sources(request: Request) -> str:
    """The addresses of previews; this server redirects to them: see gateway/stream/jail_page_previews.py."""
    server: Server | None = getattr(request.app.state, "server", None)
    if server is None:
        return "'self'"
    scheme, _, host = request.scope["hutch.origin"].partition("://")
    port = host.rpartition(":")[2]
    domain = server.loaded.settings.server.preview_domain + (f":{port}" if port.isdigit() else "")
    return f"'self' {scheme}://*.{domain}"


@lru_cache(maxsize=256)
def _load(directory: Path, name: str) -> tuple[bytes, bytes | None]:
    """A file, and the same compressed if that is worth it."""
    plain = (directory / name).read_bytes()
    if name.endswith((".woff2", ".png")) or len(plain) < MIN_COMPRESSED_BYTES:
        return plain, None
    return plain, gzip.compress(plain, mtime=0)
