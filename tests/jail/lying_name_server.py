"""The egress proxy with the host's own resolver, against a real name server that lies.

Runs in its own network and mount namespace, with a directory and the exempt network as
arguments. Prints one JSON object: for each name the results of two requests, and how
often each server was reached.
"""

import asyncio
import ipaddress
import json
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

from hutch.jail.egress import EgressAttempt, serve_egress
from tests.jail.simulated_network import Proxy, listening, origin

A, CNAME, AAAA = 1, 5, 28
PUBLIC, INSIDE = "127.0.0.2", "127.0.0.1"  # the first is exempt, and stands for any public address
ANSWERS: dict[str, list[str]] = {
    "public.example": [PUBLIC],
    "loopback.example": [INSIDE],
    "metadata.example": ["169.254.169.254"],
    "private.example": ["10.0.0.1"],
    "zero.example": ["0.0.0.0"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "compatible.example": ["::127.0.0.1"],
    "nat64.example": ["64:ff9b::7f00:1"],
    "six-to-four.example": ["2002:7f00:1::"],
    "link-local.example": ["fe80::1"],
    "unique-local.example": ["fd00::1"],
    "chain.example": ["cname:second.example"],
    "second.example": ["cname:third.example"],
    "third.example": [INSIDE],
    "mixed.example": [INSIDE, PUBLIC],
    "rebinding.example": [PUBLIC],  # once; from then on INSIDE
}


class NameServer(threading.Thread):
    """Answers A and AAAA questions from ANSWERS over UDP."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.queries: list[str] = []

    def run(self) -> None:
        while True:
            question, sender = self.socket.recvfrom(4096)
            self.socket.sendto(self._answer(question), sender)

    def _answer(self, question: bytes) -> bytes:
        name, at = _read_name(question)
        kind = struct.unpack_from(">H", question, at)[0]
        if kind == A:
            self.queries.append(name)
        records = list(self._records(name, kind))
        if name == "rebinding.example" and kind == A:
            ANSWERS[name] = [INSIDE]
        known = 0 if name in ANSWERS else 3
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | known, 1, len(records), 0, 0)
        return head + question[12 : at + 4] + b"".join(records)

    def _records(self, name: str, kind: int) -> list[bytes]:
        found: list[bytes] = []
        for value in ANSWERS.get(name, []):
            alias = value.partition("cname:")[2]
            if alias:
                found.append(_record(name, CNAME, _name(alias)))
                found += self._records(alias, kind)
                continue
            address = ipaddress.ip_address(value)
            if kind == (A if address.version == 4 else AAAA):
                found.append(_record(name, kind, address.packed))
        return found


def _read_name(message: bytes) -> tuple[str, int]:
    labels, at = [], 12
    while length := message[at]:
        labels.append(message[at + 1 : at + 1 + length].decode())
        at += 1 + length
    return ".".join(labels).lower(), at + 1


def _name(text: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def _record(name: str, kind: int, data: bytes) -> bytes:
    return _name(name) + struct.pack(">HHIH", kind, 1, 0, len(data)) + data


def prepare(directory: Path) -> None:
    """Bring loopback up, and make the resolver of this namespace query us alone."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    (directory / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    (directory / "nsswitch.conf").write_text("hosts: dns\n")
    for name in ("resolv.conf", "nsswitch.conf"):
        subprocess.run(["mount", "--bind", directory / name, f"/etc/{name}"], check=True)


async def main(exempt: str) -> None:
    server = NameServer()
    server.start()
    attempts: list[EgressAttempt] = []
    async with origin(host=INSIDE) as inside, origin(host=PUBLIC, port=inside.port) as public:
        allow = [f"{name}:{inside.port}" for name in ANSWERS]
        async with serve_egress(listening(), allow, attempts.append, also_allow_networks=[exempt]) as egress:
            client = Proxy(egress.port, attempts, egress)
            statuses: dict[str, list[int]] = {}
            for name in ANSWERS:
                for _ in range(2):
                    answer = await client.get(f"{name}:{inside.port}")
                    statuses.setdefault(name, []).append(int(answer.split(b" ")[1]) if answer else 0)
        result = {
            "statuses": statuses,
            "inside": inside.connections,
            "public": public.connections,
            "addresses": sorted({attempt.address for attempt in attempts if attempt.address}),
            "rebinding_queries": server.queries.count("rebinding.example"),
        }
    sys.stdout.write(json.dumps(result))


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
    asyncio.run(main(sys.argv[2]))
