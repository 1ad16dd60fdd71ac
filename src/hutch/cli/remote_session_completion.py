"""Sessions of a remote server, for shell completion."""

import httpx2

from hutch.cli.server_address_and_token import API, find_address
from hutch.cli.server_certificates import trusted
from hutch.domain.errors import HutchError

TIMEOUT_S = 1.0


def remote_sessions(limit: int) -> list[tuple[str, int, str, str]]:
    """Id, time, state and purpose of the newest sessions; empty when the server does not answer quickly."""
    try:
        address = find_address()
        answer = httpx2.get(
            f"{address.url}{API}/sessions",
            params={"limit": limit},
            headers={"Authorization": f"Bearer {address.token}"},
            timeout=TIMEOUT_S,
            verify=trusted(address),
            trust_env=not address.is_local,
        )
        return [
            (str(each["id"]), int(each["created_ms"]), str(each["state"]), str(each["purpose"]))
            for each in answer.json()["items"]
        ]
    except (HutchError, httpx2.HTTPError, OSError, ValueError, KeyError, TypeError):
        return []
