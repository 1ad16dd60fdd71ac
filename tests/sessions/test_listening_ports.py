"""Listening ports from the kernel's tables, also when a jail tampers with them."""

from hutch.sessions.listening_ports import ports_in

TCP = b"""\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0 20 4 30 10 -1
  12: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
"""
TCP6 = b"   0: 00000000000000000000000000000000:0BB8 00000000000000000000000000000000:0000 0A 0 0 0\n"


def test_listening_ports_are_listed_in_order() -> None:
    assert ports_in(TCP + TCP6) == [22, 3000, 8080]


def test_nonsense_is_no_port() -> None:
    assert ports_in(b"   0: 0100007F:0000 00000000:0000 0A \n  x: 0:FFFFF 0:0000 0A \n\xff\xfe") == []
