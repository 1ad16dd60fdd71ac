"""Write access to a terminal."""

import pytest

from hutch.domain.errors import Denied
from hutch.gateway.stream.terminal_write_access import TerminalClient, TerminalWriters


def client(name: str, writes: bool = True) -> TerminalClient:
    return TerminalClient(name, writes, lambda: None)


def writing(writers: TerminalWriters) -> list[str]:
    return [each.name for each in writers.clients if writers.may_write(each)]


def test_all_members_of_the_session_may_write() -> None:
    writers = TerminalWriters()
    for each in (client("ada"), client("bob"), client("eve", writes=False)):
        writers.join(each, "many")
    assert writing(writers) == ["ada", "bob"]
    with pytest.raises(Denied, match="can watch"):
        writers.check(writers.clients[2])


def test_where_one_writes_the_first_does_until_another_takes_over_or_it_leaves() -> None:
    writers = TerminalWriters()
    eve, ada, bob, carl = client("eve", writes=False), client("ada"), client("bob"), client("carl")
    for each in (eve, ada, bob, carl):
        writers.join(each, "one")
    assert writing(writers) == ["ada"]
    with pytest.raises(Denied, match="Only ada types here"):
        writers.check(bob)
    writers.take_over(carl)
    assert writing(writers) == ["carl"]
    writers.leave(carl)
    assert writing(writers) == ["ada"]
    writers.allow(ada, False)
    assert writing(writers) == ["bob"]
    with pytest.raises(Denied):
        writers.take_over(eve)
    with pytest.raises(Denied):
        writers.share(ada)
    writers.share(bob)
    writers.allow(ada, True)
    assert writing(writers) == ["ada", "bob"]


def test_watchers_cannot_lock_the_others_out() -> None:
    writers = TerminalWriters()
    ada, eve = client("ada"), client("eve", writes=False)
    writers.join(ada, "many")
    writers.join(eve, "one")
    assert (writers.mode, writing(writers)) == ("many", ["ada"])


def test_when_all_have_left_it_is_open_again() -> None:
    writers, ada = TerminalWriters(), client("ada")
    writers.join(ada, "one")
    writers.leave(ada)
    bob, carl = client("bob"), client("carl")
    writers.join(bob, "many")
    writers.join(carl, "many")
    assert writing(writers) == ["bob", "carl"]


def test_all_clients_are_notified_when_it_changes() -> None:
    notified: list[str] = []
    writers = TerminalWriters()
    ada = TerminalClient("ada", True, lambda: notified.append("ada"))
    bob = TerminalClient("bob", True, lambda: notified.append("bob"))
    writers.join(ada, "one")
    writers.join(bob, "one")
    notified.clear()
    writers.take_over(bob)
    assert notified == ["ada", "bob"]
