"""The cookie that keeps a browser logged in, and the CSRF token of our own pages.

Under TLS the name begins with `__Host-`, which browsers reserve for this exact host and for TLS.
Without TLS it carries the port, because all ports of a machine share their cookies.
"""

from typing import Any

from fastapi import Response

from hutch.domain.random_credentials_and_hashes import derive
from hutch.gateway.auth.server_names_and_client_address import values
from hutch.store.browser_sessions import ABSOLUTE_MS

CSRF_HEADER = "X-CSRF-Token"
MAX_COOKIE = 4096


def is_tls(scope: Any) -> bool:
    return scope["scheme"] in ("https", "wss")


def cookie_name(scope: Any, base_name: str = "hutch") -> str:
    if is_tls(scope):
        return f"__Host-{base_name}"
    _, _, port = (scope.get("hutch.host") or "").rpartition(":")
    return f"{base_name}_{port}" if port.isdigit() else base_name


def read_cookie(scope: Any, base_name: str = "hutch") -> str | None:
    """The value of our cookie; None if there is none, or more than one of that name."""
    expected, found = cookie_name(scope, base_name), []
    for header in values(scope["headers"], b"cookie"):
        for pair in header.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == expected and len(value) <= MAX_COOKIE:
                found.append(value)
    return found[0] if len(found) == 1 else None


def set_cookie(
    response: Response, scope: Any, value: str, *, base_name: str = "hutch", life_s: int = ABSOLUTE_MS // 1000
) -> None:
    # Lax: a link from another site opens the page logged in; other cross-site requests have no cookie.
    response.set_cookie(
        cookie_name(scope, base_name),
        value,
        max_age=life_s,
        path="/",
        secure=is_tls(scope),
        httponly=True,
        samesite="lax",
    )


def clear_cookie(response: Response, scope: Any, base_name: str = "hutch") -> None:
    response.delete_cookie(
        cookie_name(scope, base_name), path="/", secure=is_tls(scope), httponly=True, samesite="lax"
    )


def csrf_token(secret: str) -> str:
    """The token that our pages send. It is derived from the cookie, which no script can read."""
    return derive(secret, "csrf")
