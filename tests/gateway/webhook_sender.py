"""Sends signed deliveries to a server's webhook, like GitHub."""

import hashlib
import hmac
import json
import uuid
from typing import Any

import httpx

from tests.deadline import DEADLINE_S
from tests.gateway.api_server import NO_TLS, V1, Api

SECRET = "it is a secret of ours"
URL = f"{V1}/webhooks/github"


def signature(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def deliver(
    api: Api, event: str, output: Any, *, id: str = "", signed: str | None = None, **headers: str
) -> httpx.Response:
    """Send it as GitHub does: with no token, and signed unless something else is said."""
    body = output if isinstance(output, bytes) else json.dumps(output).encode()
    given = {
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": id or str(uuid.uuid4()),
        "X-Hub-Signature-256": signature(body) if signed is None else signed,
        "Content-Type": "application/json",
        **headers,
    }
    async with httpx.AsyncClient(verify=NO_TLS, base_url=api.url, timeout=DEADLINE_S) as client:
        return await client.post(URL, content=body, headers=given)


def about(url: str, full_name: str = "acme/project", by: str = "ada") -> dict[str, Any]:
    return {
        "repository": {"full_name": full_name, "clone_url": url},
        "sender": {"login": by, "type": "User"},
    }


def issue(
    number: int, *, title: str = "Slugs", body: str = "Make them lower.", by: str = "ada"
) -> dict[str, Any]:
    return {
        "number": number,
        "title": title,
        "body": body,
        "state": "open",
        "user": {"login": by},
        "html_url": f"https://127.0.0.1/acme/project/issues/{number}",
    }


def labeled(url: str, number: int, *, by: str = "ada", label: str = "hutch", **more: Any) -> dict[str, Any]:
    return {
        "action": "labeled",
        "label": {"name": label},
        "issue": issue(number, **more),
        **about(url, by=by),
    }


def commented(
    url: str, number: int, text: str, *, by: str = "ada", id: int = 9, on_pull: bool = False, **more: Any
) -> dict[str, Any]:
    thread = issue(number, **more) | ({"pull_request": {"url": "x"}} if on_pull else {})
    comment = {"id": id, "body": text, "user": {"login": by}, "html_url": f"https://127.0.0.1/c#{id}"}
    return {"action": "created", "issue": thread, "comment": comment, **about(url, by=by)}


def on_a_line(
    url: str, number: int, text: str, *, by: str = "ada", id: int = 9, **more: Any
) -> dict[str, Any]:
    comment = {
        "id": id,
        "body": text,
        "user": {"login": by},
        "path": "slug.py",
        "line": 2,
        "diff_hunk": "@@ -1,2 +1,2 @@\n+    return text.lower()",
        "html_url": f"https://127.0.0.1/r#{id}",
        **more,
    }
    return {"action": "created", "pull_request": issue(number), "comment": comment, **about(url, by=by)}


def assigned(url: str, number: int, *, to: str = "hutch", by: str = "ada", **more: Any) -> dict[str, Any]:
    return {
        "action": "assigned",
        "assignee": {"login": to},
        "issue": issue(number, **more),
        **about(url, by=by),
    }


def reviewed(
    url: str, number: int, text: str, *, state: str = "changes_requested", by: str = "ada", id: int = 5
) -> dict[str, Any]:
    review = {
        "id": id,
        "body": text,
        "state": state,
        "user": {"login": by},
        "html_url": f"https://127.0.0.1/acme/project/pull/{number}#pullrequestreview-{id}",
    }
    return {"action": "submitted", "review": review, "pull_request": issue(number), **about(url, by=by)}
