"""The paths that candidates may use: their own login, and the sessions that an invitation names.

Every other path is refused, including paths of future routes. Within a session, the share
of the candidate decides.
"""

import re
from typing import Any

from hutch.domain.errors import Denied
from hutch.domain.user import Caller

_SESSION = r"/api/v1/sessions/[^/]+"
_ALLOWED = re.compile(
    "|".join(
        (
            r"GET /api/v1/(sessions|search)",  # only sessions that are shared with them
            rf"(GET|HEAD|WS) {_SESSION}",
            rf"(GET|HEAD|PUT|POST|PATCH|DELETE|WS) {_SESSION}/(?!fork$).+",
            r"GET /api/v1/interviews(/[^/]+)?",  # only those that they were invited to
            r"(GET|POST) /api/v1/interviews/[^/]+/.+",
            r"GET /api/(v1/runs|code)/[^/]+",
            r"POST /api/v1/runs/[^/]+/resume",
            r"GET /api/v1/me|PUT /api/v1/me/password|(GET|DELETE) /api/v1/me/(browsers|approvals)(/.+)?",
            r"POST /api/v1/(logout|invites/join)",
            r"(POST|WS) /api/graphql|POST /mcp",
            r"[A-Z]+ /preview/.+",
        )
    ),
    re.DOTALL,
)


def check_path(caller: Caller, scope: Any) -> None:
    """Refuse a candidate who uses a path that is not theirs."""
    if caller.user.role != "candidate":
        return
    method = "WS" if scope["type"] == "websocket" else scope["method"]
    if not _ALLOWED.fullmatch(f"{method} {scope['path']}"):
        raise Denied(
            f"{caller.user.name} is candidate, and may use only the sessions that an invitation names. "
            f"An owner can change the role: hutch users role {caller.user.name} member"
        )
