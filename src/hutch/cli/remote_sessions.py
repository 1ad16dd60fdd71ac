"""Sessions of a server on another machine, for a shell that waits for completions."""

import httpx2

from hutch.cli.server_address import API, find_address
from hutch.cli.server_certificates import trusted
from hutch.domain.errors import HutchError

TIMEOUT_S = 1.0


def distant_sessions(most: int) -> list[tuple[str, int, str, str]]:
    """Id, time, state and purpose of the newest; none when the server does not answer at once."""
    try:
        address = find_address()
        answer = httpx2.get(
            f"{address.url}{API}/sessions",
            params={"limit": most},
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
