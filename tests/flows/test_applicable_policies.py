"""Policies of owners: whom they bind, what they decide, and which tricks do not evade them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.agent.tool_call_rules import Policy, parse_rule
from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.domain.ids import new_session_id
from hutch.domain.session import Session
from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.policies.policy import matches_repository, parse_entry
from hutch.store.event_log import SqlLog, open_log
from hutch.store.shares import Shares
from hutch.store.users import Users
from tests.new_database import place_database

pytestmark = pytest.mark.anyio

CATEGORIES = {"payments": ["github.com/acme/pay-*", "/srv/git/payments"]}


def entry(**fields: Any) -> Any:
    return parse_entry({"name": "p", **fields}, "config.toml", CATEGORIES)


def session(owner: str, **values: Any) -> Session:
    return Session(id=new_session_id(), owner=owner, created_ms=0, updated_ms=0, **values)


@asynccontextmanager
async def opened_log(place: Path) -> AsyncIterator[SqlLog]:
    place_database(place)
    async with open_log(place / "hutch.db", place / "blobs", place / "signing.key") as log:
        yield log


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/acme/pay-api",
        "https://github.com/acme/pay-api.git",
        "https://github.com:443/acme/pay-api/",
        "HTTPS://GitHub.com./ACME//pay-API.git",
        "https://user@github.com/acme/./x/../pay-api",
        "https://github.com/acme/pay%2Dapi",
        "http://www.github.com/acme/pay-api",
        "git@github.com:acme/pay-api.git",
        "github.com:acme/pay-api",
        "ssh://git@github.com:22/acme/pay-api",
        "ssh://git@ssh.github.com:443/acme/pay-api.git",
    ],
)
def test_no_spelling_of_an_address_evades_a_policy(address: str) -> None:
    assert matches_repository("github.com/acme/pay-*", address)
    assert matches_repository("https://github.com/acme/pay-*", address)
    assert entry(categories=["payments"], rules=["ask bash"]).binds_repository(address, CATEGORIES)


@pytest.mark.parametrize(
    "address",
    ["", "https://github.com/acme/docs", "https://example.com/github.com/acme/pay-api", "/srv/git/payments2"],
)
def test_another_repository_is_not_bound(address: str) -> None:
    assert not entry(categories=["payments"], rules=["ask bash"]).binds_repository(address, CATEGORIES)


def test_a_directory_is_bound_by_its_path() -> None:
    for path in ("/srv/git/payments", "/srv/git/payments/.git", "file:///srv/git/./payments.git"):
        assert matches_repository("/srv/git/payments", path)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "No Name"}, "is not the name of a policy"),
        ({"rules": ["ask bash"], "role": ["candidate"]}, "unknown field: 'role'"),
        ({"rules": ["ask bash"], "roles": ["boss"]}, "'boss' is no value of roles. There are: owner, member"),
        ({"rules": ["ask bash"], "categories": ["money"]}, "no value of categories. There are: payments"),
        ({"rules": ["perhaps bash"]}, "'perhaps bash' is not a rule"),
        ({"rules": "ask bash"}, "rules is a list"),
        ({"network": ["http://x"]}, "is a URL"),
        ({"default": "maybe"}, "'maybe' is no value of default. There are: allow, ask, deny"),
        ({"roles": ["candidate"]}, "restricts nothing"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_name(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRequest) as error:
        entry(**fields)
    assert problem in str(error.value)
    assert "name" in fields or "Policy p" in str(error.value)


def test_the_strictest_rule_decides_and_names_its_place() -> None:
    persona = Policy((parse_rule("allow bash git push", "persona engineer"),))
    asks, denies = entry(rules=["ask bash git push"]), entry(name="q", rules=["deny bash git push"])
    assert persona.decide("bash", command="git push").source == "persona engineer"
    asked = persona.bound([asks.binding()]).decide("bash", command="git push origin")
    assert (asked.action, str(asked)) == ("ask", "ask bash git push (policy p in config.toml)")
    denied = persona.bound([asks.binding(), denies.binding()]).decide("bash", command="true; git push")
    assert (denied.action, denied.policies) == ("deny", ("q",))
    stricter = Policy((parse_rule("deny bash git push", "persona careful"),)).bound([asks.binding()])
    assert stricter.decide("bash", command="git push").source == "persona careful"


def test_an_allow_of_a_policy_allows_nothing_that_a_persona_denies() -> None:
    loose = entry(default="deny", rules=["allow bash", "allow *"])
    persona = Policy((parse_rule("deny bash git push"),)).bound([loose.binding()])
    assert persona.decide("bash", command="git push").action == "deny"


def test_a_saved_approval_does_not_answer_for_an_owner_unless_the_policy_says_so() -> None:
    saved = [parse_rule("allow bash git push")]
    strict, open_ = (
        entry(rules=["ask bash git push"]),
        entry(rules=["ask bash git push"], saved_approvals=True),
    )
    assert (
        Policy().bound([strict.binding()]).with_saved(saved).decide("bash", command="git push").action
        == "ask"
    )
    assert (
        Policy().bound([open_.binding()]).with_saved(saved).decide("bash", command="git push").action
        == "allow"
    )
    denied = entry(rules=["deny bash git push"], saved_approvals=True)
    assert (
        Policy().bound([denied.binding()]).with_saved(saved).decide("bash", command="git push").action
        == "deny"
    )


def test_an_answer_to_the_persona_does_not_answer_for_an_owner() -> None:
    policy = Policy((parse_rule("ask bash"),)).bound([entry(rules=["ask bash git push"]).binding()])
    rule = parse_rule("allow bash git push")
    assert policy.granted([rule]).decide("bash", command="git push").action == "ask"
    both = policy.granted([rule], ("p",)).decide("bash", command="git push")
    assert both.action == "allow"


def test_two_policies_that_ask_need_a_user_whom_both_accept() -> None:
    owners = entry(rules=["ask bash"], approvers=["owner"])
    members = entry(name="q", rules=["ask bash"], approvers=["member"])
    both = entry(name="r", rules=["ask bash"])
    assert Policy().bound([owners.binding(), both.binding()]).decide("bash", command="ls").approvers == (
        "owner",
    )
    asked = Policy().bound([owners.binding(), members.binding()]).decide("bash", command="ls")
    assert asked.approvers == ("nobody",)


def test_files_that_an_owner_hides_are_hidden_from_searches() -> None:
    policy = Policy().bound([entry(rules=["deny grep secrets/**"]).binding()])
    assert policy.hides("grep", "")("secrets/key") and not policy.hides("grep", "")("src/key")


async def test_everyone_who_works_in_a_session_binds_it(tmp_path: Path) -> None:
    async with opened_log(tmp_path) as log:
        users, shares = Users(log), Shares(log)
        boss, cat, watcher = (
            await users.add("boss", "owner"),
            await users.add("cat", "candidate"),
            await users.add("watcher", "candidate"),
        )
        policies = Policies(log, (entry(roles=["candidate"], network=[]),), CATEGORIES)
        opened = session(boss.id, network=("example.com",))
        assert (await policies.network_limit(opened)).covered(opened.network) == ("example.com",)
        await shares.set(opened.id, watcher.id, "observer", created_by=boss.id)
        assert (await policies.network_limit(opened)).covered(opened.network) == ("example.com",)
        await shares.set(opened.id, cat.id, "candidate", created_by=boss.id)
        limit = await policies.network_limit(opened)
        assert limit.covered(opened.network) == ()
        with pytest.raises(
            Denied, match=r"'example\.com' may not be reached: policy p in config\.toml allows none"
        ):
            limit.check(opened.network)


async def test_a_share_as_candidate_binds_a_member(tmp_path: Path) -> None:
    async with opened_log(tmp_path) as log:
        boss, ada = await Users(log).add("boss", "owner"), await Users(log).add("ada", "member")
        policies = Policies(log, (entry(roles=["candidate"], rules=["deny bash"]),), CATEGORIES)
        opened = session(boss.id)
        await Shares(log).set(opened.id, ada.id, "candidate", created_by=boss.id)
        assert (await policies.user_policy(opened, ada.id)).decide("bash", command="ls").action == "deny"
        assert (await policies.user_policy(replace(opened, owner=ada.id), ada.id)).bindings == ()


async def test_a_user_who_is_gone_has_the_most_restricted_role(tmp_path: Path) -> None:
    async with opened_log(tmp_path) as log:
        policies = Policies(log, (entry(roles=["candidate"], network=[]),), CATEGORIES)
        assert (await policies.network_limit(session("usr_gone"))).covered(["example.com"]) == ()


async def test_stored_policies_are_effective_at_once_and_never_replace_those_of_the_settings(
    tmp_path: Path,
) -> None:
    async with opened_log(tmp_path) as log:
        policies = Policies(log, (entry(rules=["deny bash"]),), CATEGORIES)
        await policies.add(
            {"name": "stored", "categories": ["payments"], "rules": ["ask bash"]}, created_by="u"
        )
        assert [each.name for each in await policies.entries()] == ["p", "stored"]
        with pytest.raises(BadRequest, match="is in the settings"):
            await policies.add({"name": "p", "rules": ["allow bash"], "default": "ask"}, created_by="u")
        with pytest.raises(Conflict, match="already"):
            await policies.add({"name": "stored", "rules": ["ask bash"]}, created_by="u")
        with pytest.raises(BadRequest, match=r"is in config\.toml"):
            await policies.remove("p")
        with pytest.raises(NotFound):
            await policies.remove("nothing")
        # Without its category, a policy binds more, not less.
        alone = Policies(log, (), {})
        [kept] = await alone.entries()
        assert kept.binds_repository("https://example.com/any", {})
        await policies.remove("stored")
        assert [each.name for each in await policies.entries()] == ["p"]
