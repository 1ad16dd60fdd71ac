"""Users as rows: one name each, one owner at least, and identities that nobody can take over."""

import asyncio

import pytest

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.store.event_log import SqlLog
from hutch.store.users import Users

pytestmark = pytest.mark.anyio


@pytest.fixture
def users(log: SqlLog) -> Users:
    return Users(log)


async def test_they_are_found_by_id_and_by_name_as_people_write_it(users: Users) -> None:
    ada = await users.add("Ada", "owner")
    assert [await users.find(name) for name in (ada.id, "Ada", "ADA", "ａｄａ")] == [ada] * 4
    assert await users.get(ada.id) == ada
    assert await users.list() == [ada]
    for name in ("", "eve", "usr_0", "%"):
        with pytest.raises(NotFound):
            await users.find(name)


@pytest.mark.parametrize("name", ["ada", "ADA", "Ａda"])
async def test_a_name_that_is_taken(users: Users, name: str) -> None:
    await users.add("Ada", "owner")
    with pytest.raises(Conflict):
        await users.add(name, "member")


@pytest.mark.parametrize(
    "name", ["", " ", "a\nb", "a\x00", "x" * 65, "<b>", "a/b", " a", "a;b", "\u202eada", "usr_01", "USR_x"]
)
async def test_what_is_no_name(users: Users, name: str) -> None:
    with pytest.raises(BadRequest):
        await users.add(name, "member")


async def test_of_many_first_starts_one_creates_the_owner(users: Users) -> None:
    made = await asyncio.gather(*(users.add_first_owner(f"user{n}") for n in range(8)))
    assert sum(user is not None for user in made) == 1
    assert [user.role for user in await users.list()] == ["owner"]


async def test_the_last_owner_stays(users: Users) -> None:
    ada, bob = await users.add("ada", "owner"), await users.add("bob", "member")
    for change in (users.set_role(ada.id, "member"), users.set_disabled(ada.id, True)):
        with pytest.raises(BadRequest, match="last owner"):
            await change
    assert await users.get(ada.id) == ada
    await users.set_role(bob.id, "owner")
    assert (await users.set_disabled(ada.id, True)).disabled
    with pytest.raises(BadRequest, match="last owner"):
        await users.set_role(bob.id, "member")


async def test_a_password_is_kept_beside_its_user(users: Users) -> None:
    ada = await users.add("Ada", "owner")
    assert await users.find_with_password_hash("ada") == (ada, "")
    await users.set_password(ada.id, "$argon2id$…")
    assert await users.find_with_password_hash("ada") == (ada, "$argon2id$…")
    assert await users.find_with_password_hash("eve") is None
    with pytest.raises(NotFound):
        await users.set_password("usr_0", "x")


async def test_an_identity_is_a_new_user_or_one_that_an_owner_invited(users: Users) -> None:
    expected = await users.add("grace@example.org", "assessor")
    new = await users.link_identity("https://id.example", "1", "ada@example.org", "member")
    assert (new.name, new.role) == ("ada@example.org", "member")
    assert await users.link_identity("https://id.example", "2", "Grace@example.org", "member") == expected
    assert await users.find_by_identity("https://id.example", "1") == new
    assert await users.find_by_identity("https://other.example", "1") is None


async def test_an_identity_does_not_take_over_an_account(users: Users) -> None:
    ada = await users.add("ada@example.org", "owner", password_hash="x")
    with pytest.raises(Conflict, match="another login method"):
        await users.link_identity("https://id.example", "666", "ada@example.org", "member")
    await users.link_identity("https://id.example", "1", "bob@example.org", "member")
    with pytest.raises(Conflict, match="another login method"):
        await users.link_identity("https://id.example", "666", "bob@example.org", "member")
    assert await users.find_by_identity("https://id.example", "666") is None
    assert await users.get(ada.id) == ada
