"""The page that a one-time link opens.

It sends no request until a person presses the button, so mail and chat programs that
prefetch links do not use the link up. The secret is in the fragment of the URL, which
browsers do not send; the page removes it from the address bar at once.
"""

import base64
import hashlib
from pathlib import Path

from fastapi import APIRouter, Response

routes = APIRouter(include_in_schema=False)

PAGES = Path(__file__).parent / "pages"
STYLE, SCRIPT = ((PAGES / name).read_text("utf-8") for name in ("page.css", "link.js"))
PAGE, NOT_BUILT = (
    (PAGES / name).read_text("utf-8").replace("{style}", STYLE).replace("{script}", SCRIPT)
    for name in ("link.html", "not_built.html")
)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)}; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
}


@routes.get("/link")
async def link_page() -> Response:
    """The same page for every caller; it contains no data."""
    return Response(PAGE, media_type="text/html; charset=utf-8", headers=HEADERS)
