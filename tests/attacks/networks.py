"""Ways to a network past the egress proxy, which test_egress_attacks.py attacks itself."""

from .attack import CAPABLE, NO_JAIL, NO_SECCOMP, ROOT, Off, Probe

SHARED_NET = Off("no --unshare-net", without=("--unshare-net",))
NO_ROUTE = "ENETUNREACH|EHOSTUNREACH|EADDRNOTAVAIL|ENODEV"


def family(name: str, text: str, arguments: str, *, held: str, off: Off = NO_SECCOMP) -> Probe:
    return Probe(
        name=name,
        guard="seccomp",
        text=text,
        program=f"""
try:
    socket.socket({arguments})
except OSError as error:
    if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT) and not HOST["jailed"]:
        raise Absent("this kernel has no such sockets")
    raise
""",
        held=held,
        off=off,
    )


PROBES = [
    Probe(
        name="loopback-of-host",
        guard="namespaces",
        text="connect to a port on the host's 127.0.0.1",
        program='socket.create_connection(("127.0.0.1", HOST["port"]), 2)',
        held="ECONNREFUSED",
        off=SHARED_NET,
    ),
    Probe(
        name="loopback6-of-host",
        guard="namespaces",
        text="connect to a port on the host's ::1",
        program="""
if not HOST["port6"]: raise Absent("no IPv6")
socket.create_connection(("::1", HOST["port6"]), 2)
""",
        held="ECONNREFUSED|EADDRNOTAVAIL|ENETUNREACH",
        off=SHARED_NET,
    ),
    Probe(
        name="abstract-socket",
        guard="namespaces",
        text="connect to an abstract unix socket of the host",
        program='socket.socket(socket.AF_UNIX).connect("\\0" + HOST["abstract"])',
        held="ECONNREFUSED",
        off=SHARED_NET,
    ),
    Probe(
        name="abstract-claim",
        guard="namespaces",
        text="take the abstract name that claims a jail's uid",
        program="""
taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    taken.bind("\\0" + HOST["abstract"])
except OSError as error:
    if error.errno != errno.EADDRINUSE: raise  # in use: it is the host's name that was met
else:
    raise Held("a name of its own world")
""",
        held="a name of its own world",
        off=SHARED_NET,
    ),
    Probe(
        name="interfaces",
        guard="namespaces",
        text="find an interface other than loopback",
        program='if [name for _, name in socket.if_nameindex()] == ["lo"]: raise Held("loopback only")',
        held="loopback only",
        off=SHARED_NET,
    ),
    *(
        Probe(
            name=name,
            guard="namespaces",
            text=text,
            # connect() of a datagram socket looks for a route and sends nothing
            program=f"""
sock = socket.socket(socket.{kind}, socket.SOCK_DGRAM)
try:
    sock.connect(({address!r}, 9))
except OSError as error:
    if not HOST["jailed"]: raise Absent("this host has no such route")
    raise
""",
            held=NO_ROUTE,
            off=SHARED_NET,
        )
        for name, text, kind, address in (
            ("route-out", "find a route to the internet", "AF_INET", "198.51.100.1"),
            ("route-link-local", "find a route to a cloud's metadata service", "AF_INET", "169.254.169.254"),
            ("route-private", "find a route to a private network", "AF_INET", "10.0.0.1"),
            ("route-multicast", "find a route to a multicast group", "AF_INET", "224.0.0.251"),
            ("route-6", "find a route to the internet by IPv6", "AF_INET6", "2001:db8::1"),
            ("route-6-multicast", "find a route to link-local neighbours by IPv6", "AF_INET6", "ff05::1"),
        )
    ),
    Probe(
        name="new-interface",
        guard="uid",
        text="make a network interface by netlink",
        program="""
sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
kind = struct.pack("HH", 9, 1) + b"dummy" + bytes(3)
info = struct.pack("HH", 4 + len(kind), 18) + kind
body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + info
sock.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
answer = sock.recv(4096)
failed = -struct.unpack("i", answer[16:20])[0]
if failed in (errno.EOPNOTSUPP, errno.EINVAL): raise Absent("this kernel makes no dummy interfaces")
if failed: raise OSError(failed, "netlink")
""",
        held="EPERM",
        off=CAPABLE,
    ),
    Probe(
        name="low-port-of-host",
        guard="namespaces",
        text="bind a port that the host serves",
        program="""
try:
    socket.create_server(("127.0.0.1", HOST["port"]))
except OSError as error:
    if error.errno != errno.EADDRINUSE: raise
else:
    raise Held("a port of its own world")
""",
        held="a port of its own world",
        off=SHARED_NET,
    ),
    family("vsock", "reach the hypervisor", "socket.AF_VSOCK, socket.SOCK_STREAM", held="EAFNOSUPPORT"),
    family(
        "packet", "see raw frames", "socket.AF_PACKET, socket.SOCK_RAW, 3", held="EAFNOSUPPORT", off=CAPABLE
    ),
    family("raw-ip", "send raw IP packets", "socket.AF_INET, socket.SOCK_RAW, 1", held="EPERM", off=CAPABLE),
    family(
        "raw-ip6", "send raw IPv6 packets", "socket.AF_INET6, socket.SOCK_RAW, 58", held="EPERM", off=CAPABLE
    ),
    family("alg", "use the kernel's ciphers", "38, socket.SOCK_SEQPACKET", held="EAFNOSUPPORT"),
    family(
        "netlink-audit",
        "use the audit system",
        "socket.AF_NETLINK, socket.SOCK_RAW, 9",
        held="EPROTONOSUPPORT",
    ),
    family(
        "netlink-netfilter",
        "use the packet filter",
        "socket.AF_NETLINK, socket.SOCK_RAW, 12",
        held="EPROTONOSUPPORT",
    ),
    family(
        "netlink-generic",
        "use generic netlink",
        "socket.AF_NETLINK, socket.SOCK_RAW, 16",
        held="EPROTONOSUPPORT",
    ),
    family(
        "netlink-uevent",
        "receive events about the host's devices",
        "socket.AF_NETLINK, socket.SOCK_RAW, 15",
        held="EPROTONOSUPPORT",
    ),
    family("key", "use IPsec", "15, socket.SOCK_RAW, 2", held="EAFNOSUPPORT", off=CAPABLE),
    family("bluetooth", "reach bluetooth", "31, socket.SOCK_RAW, 1", held="EAFNOSUPPORT"),
    family("xdp", "bypass the network stack", "44, socket.SOCK_RAW", held="EAFNOSUPPORT", off=CAPABLE),
    family("tipc", "use a rare protocol", "30, socket.SOCK_SEQPACKET", held="EAFNOSUPPORT"),
    family("rds", "use another rare protocol", "21, socket.SOCK_SEQPACKET", held="EAFNOSUPPORT"),
    family("mptcp", "use multipath TCP", "socket.AF_INET, socket.SOCK_STREAM, 262", held="EPROTONOSUPPORT"),
    family("sctp", "use SCTP", "socket.AF_INET, socket.SOCK_STREAM, 132", held="EPROTONOSUPPORT"),
    Probe(
        name="socketpair-family",
        guard="seccomp",
        text="make a pair of sockets of a rare family",
        program="""
try:
    socket.socketpair(30, socket.SOCK_SEQPACKET)
except OSError:
    if not HOST["jailed"]: raise Absent("this kernel has no such sockets")
    raise
""",
        held="EAFNOSUPPORT",
        off=NO_SECCOMP,
    ),
    Probe(
        name="host-interface-address",
        guard="namespaces",
        text="bind to an address of the host's interfaces",
        program="""
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    probe.connect(("198.51.100.1", 9))
except OSError:
    if not HOST["jailed"]: raise Absent("this host has no route")
    raise
socket.socket().bind((probe.getsockname()[0], 0))
""",
        held=NO_ROUTE,
        off=SHARED_NET,
    ),
    Probe(
        name="ping",
        guard="namespaces",
        text="send a ping out",
        program="""
sock = socket.socket(socket.AF_INET, socket.SOCK_RAW if os.getuid() == 0 else socket.SOCK_DGRAM, 1)
sock.connect(("198.51.100.1", 0))
""",
        held="ENETUNREACH|EACCES",
        off=ROOT,
    ),
    Probe(
        name="resolver",
        guard="namespaces",
        text="resolve a name past the proxy",
        program="""
servers = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")]
sock = socket.socket(socket.AF_INET6 if servers and ":" in servers[0] else socket.AF_INET, socket.SOCK_DGRAM)
if not servers: raise Held("no name server is named")
sock.connect((servers[0], 53))
""",
        held="no name server is named",
        off=NO_JAIL,
    ),
]
