"""URLs of PostgreSQL databases. They hold no password, so they may be printed and logged."""

from urllib.parse import parse_qsl, unquote, urlsplit

from hutch.domain.errors import BadRequest

EXAMPLE = "postgresql://hutch@db.example.com/hutch"
SCHEMES = ("postgresql", "postgres")
PASSWORD_HINT = (
    "A URL of a database holds no password. Store it with `hutch config set-secret database_password`, or "
    "in ~/.pgpass"
)


def check_postgresql_url(url: str) -> str:
    """The URL, if libpq may understand it and it holds no password. The message does not repeat it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadRequest(f"It should be a URL such as {EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not url.isprintable() or "#" in url:
        raise BadRequest(f"It should be a URL such as {EXAMPLE}")
    options = {name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)}
    _, colon, _ = parts.netloc.rpartition("@")[0].partition(":")
    if colon or options & {"password", "sslpassword"}:
        raise BadRequest(PASSWORD_HINT)
    if not unquote(parts.path).strip("/"):
        raise BadRequest(f"The URL names no database. It should be one such as {EXAMPLE}")
    return url
