"""The page that a one-time link opens.

It asks the server for nothing until a person presses the button: whatever looks at links
ahead of people, in mail and chat, spends nothing. The secret stands behind the # of the
address, which is never sent, and is taken out of the address at once.
"""

import base64
import hashlib
from pathlib import Path

from fastapi import APIRouter, Response

routes = APIRouter(include_in_schema=False)

PAGES = Path(__file__).parent / "pages"
STYLE, SCRIPT = ((PAGES / name).read_text("utf-8") for name in ("page.css", "link.js"))
PAGE, HOME = (
    (PAGES / name).read_text("utf-8").replace("{style}", STYLE).replace("{script}", SCRIPT)
    for name in ("link.html", "home.html")
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
    """The same for everybody: it holds nothing, and tells nothing."""
    return Response(PAGE, media_type="text/html; charset=utf-8", headers=HEADERS)


@routes.get("/")
async def home_page() -> Response:
    """What a browser finds that was just logged in."""
    return Response(HOME, media_type="text/html; charset=utf-8", headers=HEADERS)
