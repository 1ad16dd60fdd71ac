"""Which policies of owners bind a session, and a user who works in it.

The agent of a session and its network are bound by the policies of everyone who works in
the session: its owner, and the users that it is shared with for work. All of them use the
same agent and the same jail, so the strictest rule must hold for all.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import partial

import structlog

from hutch.agent.tool_call_permission_decision import PARSING
from hutch.agent.tool_call_rules import Binding, Decision, Policy
from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.flows.policies.policy import PolicyEntry, entry_json, parse_entry
from hutch.jail.egress import parse_allow_list
from hutch.jail.egress.host_normalization import join_authority
from hutch.store.audit import Audit
from hutch.store.owner_policies import StoredPolicies
from hutch.store.sessions import Sessions
from hutch.store.shares import Shares
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

CACHE_S = 1.0  # another process may change the stored policies
_versions = [0]  # counts the changes by this process
STORED = "the database"
WORKING_SHARES = ("member", "candidate")
NO_SUCH_USER = ("candidate",)  # the roles of a user that does not exist any more: the most restricted

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class NetworkLimit:
    """The hosts that policies leave to a session."""

    entries: tuple[PolicyEntry, ...] = ()

    def covered(self, hosts: Sequence[str]) -> tuple[str, ...]:
        return tuple(host for host in hosts if self.refusing(host) is None)

    def check(self, hosts: Sequence[str]) -> None:
        """Refuse hosts that a policy excludes; the error names the policy."""
        for host in hosts:
            if entry := self.refusing(host):
                allowed = ", ".join(entry.network or ()) or "none"
                raise Denied(
                    f"The host {echo(host, 200)} may not be reached: {entry.described} allows {allowed}. "
                    "An owner can change it."
                )

    def refusing(self, host: str) -> PolicyEntry | None:
        """The policy that excludes a host, if there is one."""
        pattern = parse_allow_list([host]).patterns[0]
        return next((each for each in self.entries if each.hosts and not each.hosts.covers(pattern)), None)


def may_answer_as(roles: Sequence[str], approvers: Sequence[str]) -> bool:
    """True if a user of these roles may answer a question that only users of some roles may answer."""
    return not approvers or set(roles) <= set(approvers)


def refusal(decision: Decision) -> Denied:
    """The error for a user."""
    asks = decision.action == "ask"
    who = f" Only {' and '.join(decision.approvers)} may do this without asking." if asks else ""
    return Denied(f"A rule denies this: {decision}.{who} An owner can change the policy.")


def _answers(roles: Sequence[str], decision: Decision) -> bool:
    return decision.action == "ask" and may_answer_as(roles, decision.approvers)


async def _decide_command(bindings: Sequence[Binding], command: str) -> Decision:
    decide = partial(Policy(bindings=tuple(bindings)).decide, "bash", command=command)
    return await asyncio.get_running_loop().run_in_executor(PARSING, decide)


@dataclass(slots=True)
class Policies:
    """The policies of the settings and of the database."""

    rows: Rows
    fixed: tuple[PolicyEntry, ...] = ()  # of the settings
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)  # patterns of repositories, by name
    _stored: tuple[PolicyEntry, ...] = ()
    _version: int = -1  # of the stored policies that were read
    _read_at: float = 0.0

    async def entries(self) -> tuple[PolicyEntry, ...]:
        """All policies: those of the settings, then those of the database."""
        now = time.monotonic()
        if self._version != _versions[0] or now - self._read_at > CACHE_S:
            version = _versions[0]
            found = await StoredPolicies(self.rows).list()
            self._stored = tuple(self._parse_stored(fields) for fields in found)
            self._version, self._read_at = version, now
        return (*self.fixed, *self._stored)

    def _parse_stored(self, fields: Mapping[str, object]) -> PolicyEntry:
        """A stored policy. If one of its categories is gone from the settings, it binds every repository."""
        named = fields.get("categories")
        if isinstance(named, list) and not set(named) <= set(self.categories):
            logger.warning("policy.category_missing", policy=fields.get("name"), categories=named)
            fields = {**fields, "categories": [], "repositories": []}
        return parse_entry(fields, STORED, self.categories)

    async def add(self, fields: Mapping[str, object], *, created_by: str) -> PolicyEntry:
        """Store a policy. It is effective at once; it never loosens those of the settings."""
        entry = parse_entry(fields, STORED, self.categories)
        if any(each.name == entry.name for each in self.fixed):
            raise BadRequest(f"Policy {entry.name} is in the settings. Choose another name.")
        await StoredPolicies(self.rows).add(entry_json(entry), created_by=created_by)
        _versions[0] += 1
        return entry

    async def remove(self, name: str) -> None:
        if fixed := next((each for each in self.fixed if each.name == name), None):
            raise BadRequest(f"Policy {name} is in {fixed.source}. Remove it there, and restart the server.")
        await StoredPolicies(self.rows).remove(name)
        _versions[0] += 1

    # --- whom they bind ---

    async def binding_entries(self, roles: Sequence[str], repository: str) -> tuple[PolicyEntry, ...]:
        """The policies that bind these roles in a repository."""
        return tuple(
            each
            for each in await self.entries()
            if each.binds_roles(roles) and each.binds_repository(repository, self.categories)
        )

    async def session_entries(self, session: Session) -> tuple[PolicyEntry, ...]:
        """The policies that bind the agent and the network of a session."""
        if not await self.entries():
            return ()
        return await self.binding_entries(await self.roles_in(session), session.repository)

    async def roles_in(self, session: Session) -> tuple[str, ...]:
        """The roles of everyone who works in a session."""
        roles = {*await self.roles_of(session.owner)}
        for share in await Shares(self.rows).of_session(session.id):
            if share.role in WORKING_SHARES:
                roles |= {share.role, *await self.roles_of(share.user_id)}
        return tuple(sorted(roles))

    async def roles_of(self, user_id: str, session: Session | None = None) -> tuple[str, ...]:
        """The role of a user in the installation, and in a session that is shared with them."""
        try:
            own: tuple[str, ...] = ((await Users(self.rows).get(user_id)).role,)
        except NotFound:
            own = NO_SUCH_USER
        if session is None or session.owner == user_id:
            return own
        shared = await Shares(self.rows).role(session.id, user_id)
        return tuple(dict.fromkeys((*own, shared))) if shared else own

    # --- decisions ---

    async def agent_bindings(self, session: Session) -> tuple[Binding, ...]:
        """The rules for the agent of a session."""
        return tuple(each.binding() for each in await self.session_entries(session) if each.has_rules)

    async def user_policy(self, session: Session, user_id: str) -> Policy:
        """The rules for a user's own commands and changes in a session. Where a policy asks, and the user may
        answer, the user's own request is the answer."""
        if not await self.entries():
            return Policy()
        roles = await self.roles_of(user_id, session)
        found = await self.binding_entries(roles, session.repository)
        return Policy(bindings=tuple(each.binding() for each in found if each.has_rules))

    async def may_approve(self, session: Session, user_id: str, approvers: Sequence[str]) -> bool:
        """True if a user may answer a question that only users of these roles may answer."""
        return may_answer_as(await self.roles_of(user_id, session), approvers)

    # --- the test command of a session ---

    async def check_new_tests(self, roles: Sequence[str], repository: str, command: str) -> None:
        """Refuse a test command that a user of these roles may not run."""
        found = await self.binding_entries(roles, repository)
        decision = await _decide_command([each.binding() for each in found if each.has_rules], command)
        if decision.action != "allow" and not _answers(roles, decision):
            raise refusal(decision)

    async def refuse_tests(self, session: Session) -> str:
        """The refusal of a session's own test command; empty if it may be run. It binds everyone who works in
        the session. Where a policy asks, the request of an owner of the session who may answer is the answer.
        """
        command = session.delivery.tests
        if not command or not (bindings := await self.agent_bindings(session)):
            return ""
        decision = await _decide_command(bindings, command)
        if decision.action == "allow" or _answers(await self.roles_of(session.owner), decision):
            return ""
        await self.note(session.id, "run_tests", decision)
        return str(refusal(decision))

    async def network_limit(self, session: Session) -> NetworkLimit:
        return NetworkLimit(
            tuple(each for each in await self.session_entries(session) if each.network is not None)
        )

    async def new_network_limit(self, roles: Sequence[str], repository: str) -> NetworkLimit:
        """The limit for a session that these roles will work in."""
        found = await self.binding_entries(roles, repository)
        return NetworkLimit(tuple(each for each in found if each.network is not None))

    async def check_egress(self, session_id: str, host: str, port: int) -> None:
        """Refuse a connection of a session's jail that a policy excludes now. Roles, shares and policies may
        have changed since the jail was opened."""
        if not await self.entries():
            return
        session = await Sessions(self.rows).get(session_id)
        (await self.network_limit(session)).check([join_authority(host, port)])

    async def note(
        self, session_id: str, tool: str, decision: Decision, *, user_id: str = "", ok: bool = False
    ) -> None:
        """Write a decision into the audit: the rule, and where it is written. `ok`: a user is asked."""
        try:
            await Audit(self.rows).add(
                "policy.asked" if ok else "policy.denied",
                user_id=user_id,
                object=session_id,
                ok=ok,
                detail=f"{tool}: {decision}",
            )
        except HutchError as error:  # the decision itself holds
            logger.warning("policy.not_noted", session_id=session_id, problem=str(error))
