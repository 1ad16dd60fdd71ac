"""A trial: an extension runs in its jail on a workspace of samples, and what it does is recorded.

Nothing of the user's is in that workspace. The samples include files that a program has no reason to read.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from hutch.agent.extensions.extension_approvals import Trial
from hutch.agent.extensions.extension_host import (
    Complaint,
    Surroundings,
    open_extension_jail,
    open_session,
    run_program,
)
from hutch.agent.extensions.extension_manifest import Manifest
from hutch.agent.extensions.extension_reply import ServerReply
from hutch.agent.extensions.trial_activity_recording import JailActivity
from hutch.agent.extensions.untrusted_tool_description import clean_text
from hutch.domain.errors import BadRequest
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

SHOWN_CHARS = 2000
SERVER_CHARS = 200
SAMPLES = {
    "README.md": "# A sample\n\nThis workspace exists only while an extension is tried.\n",
    "src/main.py": 'def main():\n    print("hello")\n',
    ".env": "SAMPLE_TOKEN=not-a-real-token\n",
    ".git/config": "[core]\n\tbare = false\n",
}


@dataclass(frozen=True, slots=True)
class TrialCall:
    """A call to make in a trial."""

    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TrialResult:
    """A trial, and the replies to its calls."""

    trial: Trial
    replies: tuple[ServerReply, ...]


def parse_call(text: str) -> TrialCall:
    """Read `TOOL` or `TOOL={"argument": …}`."""
    tool, found, written = text.partition("=")
    try:
        arguments = json.loads(written) if found else {}
    except ValueError as error:
        raise BadRequest(f"The arguments of the call '{tool[:80]}' are not JSON: {error}.") from None
    if not tool or not isinstance(arguments, dict):
        raise BadRequest(f'\'{text[:80]}\' is not a call. Write TOOL={{"argument": "value"}}.')
    return TrialCall(tool, arguments)


async def try_extension(
    manifest: Manifest,
    program: str,
    surroundings: Surroundings,
    activity: JailActivity,
    calls: Sequence[TrialCall],
    clean: Callable[[str], str] = str,
) -> TrialResult:
    """Start an extension, list its tools, make the calls, and write down what happened. `clean` removes
    secrets."""

    @asynccontextmanager
    async def open_recorded(policy: Policy, use: str) -> AsyncIterator[Jailed]:
        async with surroundings.open_jail(policy, use) as jail, activity.record(jail, manifest.paths):
            yield jail

    recorded = replace(surroundings, open_jail=open_recorded)
    replies: list[ServerReply] = []
    server, tools = "", manifest.declared
    if manifest.kind == "program":
        for call in calls:
            async with open_extension_jail(manifest, recorded) as jail:
                replies.append(await run_program(jail, manifest, call.tool, call.arguments))
    else:
        async with open_session(manifest, recorded, Complaint(manifest.name)) as opened:
            server, tools = clean_text(opened.session.server, SERVER_CHARS), opened.session.tools
            for call in calls:
                try:
                    reply = await opened.session.call(call.tool, call.arguments, manifest.timeout_s)
                except ConnectionError:
                    replies.append(ServerReply("The server ended during this call.", ok=False))
                    break
                replies.append(reply)
    problems = tuple(
        f"The tool '{clean_text(each.name, 80)}' is left out: {each.problem}."
        for each in tools
        if each.problem
    )
    trial = Trial(
        program=program,
        manifest=manifest.digest,
        tools=tools,
        server=server,
        activity=activity.to_json(clean),
        problems=problems,
        tried_ms=wall_ms(),
    )
    cleaned = tuple(ServerReply(clean_text(clean(each.text), SHOWN_CHARS), ok=each.ok) for each in replies)
    return TrialResult(trial, cleaned)
