"""Explains what the policies of owners decide about a call, for an owner who writes them."""

import asyncio
from collections.abc import Sequence

from hutch.agent.persona import Persona
from hutch.agent.tool_call_permission_decision import PARSING
from hutch.agent.tool_call_rules import COMMAND_TOOLS, Decision, Policy
from hutch.domain.errors import BadRequest
from hutch.flows.policies.applicable_policies import NetworkLimit, Policies
from hutch.flows.policies.policy import PolicyEntry
from hutch.system.lazy_dataclass import dataclass

NETWORK = "network"  # the name of hosts in a question


@dataclass(frozen=True, slots=True)
class Consideration:
    """The decision of one policy, or of a persona, by itself."""

    source: str
    action: str
    rule: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision, the rule behind it, and everything that was considered."""

    action: str
    rule: str
    source: str
    approvers: tuple[str, ...]  # who may answer, if it is `ask`
    considered: tuple[Consideration, ...]


async def explain(
    policies: Policies, call: str, *, roles: Sequence[str], repository: str, persona: Persona | None = None
) -> Explanation:
    """Decide a call such as `bash git push`, `write_file src/a.py` or `network example.com`."""
    tool, _, argument = call.strip().partition(" ")
    argument = argument.strip()
    if not tool:
        raise BadRequest(
            "Name a call, such as `bash git push`, `write_file src/a.py`, `network example.com`."
        )
    entries = await policies.binding_entries(roles, repository)
    if tool == NETWORK:
        return _explain_host(argument, [each for each in entries if each.network is not None])
    loop = asyncio.get_running_loop()  # the parser of commands may block a thread for seconds
    return await loop.run_in_executor(PARSING, _explain_call, tool, argument, entries, persona)


def _explain_call(
    tool: str, argument: str, entries: Sequence[PolicyEntry], persona: Persona | None
) -> Explanation:
    bindings = [each.binding() for each in entries if each.has_rules]
    own = persona.policy if persona else Policy()
    found = _decide(own.bound(bindings), tool, argument)
    alone = [each.mark(_decide(each.policy, tool, argument)) for each in bindings]
    considered = [Consideration(each.source, each.action, each.rule) for each in alone]
    if persona:
        by_persona = _decide(own, tool, argument)
        considered.append(Consideration(f"persona {persona.name}", by_persona.action, by_persona.rule))
    return Explanation(found.action, found.rule, found.source, found.approvers, tuple(considered))


def _decide(policy: Policy, tool: str, argument: str) -> Decision:
    if tool in COMMAND_TOOLS:
        return policy.decide(tool, command=argument) if argument else policy.decide(tool)
    return policy.decide(tool, paths=(argument,) if argument else ())


def _explain_host(host: str, entries: Sequence[PolicyEntry]) -> Explanation:
    if not host:
        raise BadRequest("Name a host, such as `network example.com`.")
    refusing = NetworkLimit(tuple(entries)).refusing(host)
    denying = [each for each in entries if NetworkLimit((each,)).refusing(host)]
    considered = tuple(
        Consideration(each.described, "deny" if each in denying else "allow", _hosts(each))
        for each in entries
    )
    if refusing is None:
        return Explanation("allow", "default", "", (), considered)
    return Explanation("deny", _hosts(refusing), refusing.described, (), considered)


def _hosts(entry: PolicyEntry) -> str:
    return f"network = [{', '.join(entry.network or ())}]"
