"""A shell on a WebSocket without jail, log, redaction and login. Run as a program; it prints its port.

The least that any server in Python does for a terminal in a browser, with the flow control that this
needs. The client acknowledges bytes by sending their number as a text.
"""

import os
import pty
import select
import socket
import struct
import threading

from websockets.utils import accept_key, apply_mask

READ_BYTES = 64 * 1024
WINDOW_BYTES = 512 * 1024  # that the client has not acknowledged


def main() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    pid, terminal = pty.fork()
    if not pid:
        os.execv("/bin/bash", ["bash", "--norc"])
    os.set_blocking(terminal, False)
    client, _ = listening.accept()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    shake_hands(client)
    window = Window()
    threading.Thread(target=read_frames, args=(client, terminal, window), daemon=True).start()
    memory, poll, ended = memoryview(bytearray(READ_BYTES)), select.poll(), False
    poll.register(terminal, select.POLLIN)
    while not ended:
        poll.poll()
        count = 0
        try:
            while count < len(memory):
                count += os.readv(terminal, [memory[count:]])
        except BlockingIOError:
            pass
        except OSError:  # the shell has ended
            ended = True
        if count:
            client.sendmsg([head(count), memory[:count]])
            window.wait_after(count)


def shake_hands(client: socket.socket) -> None:
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += client.recv(READ_BYTES)
    name = "Sec-WebSocket-Key: "
    key = next(line for line in asked.decode().split("\r\n") if line.startswith(name)).removeprefix(name)
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade"]
    client.sendall("\r\n".join([*lines, f"Sec-WebSocket-Accept: {accept_key(key)}", "", ""]).encode())


def head(length: int) -> bytes:
    if length < 126:
        return struct.pack("!BB", 0x82, length)
    if length < 65536:
        return struct.pack("!BBH", 0x82, 126, length)
    return struct.pack("!BBQ", 0x82, 127, length)


class Window:
    """The bytes that the client has not acknowledged."""

    def __init__(self) -> None:
        self._open_bytes = 0
        self._changed = threading.Condition()

    def wait_after(self, sent: int) -> None:
        with self._changed:
            self._open_bytes += sent
            self._changed.wait_for(lambda: self._open_bytes < WINDOW_BYTES)

    def acknowledge(self, count: int) -> None:
        with self._changed:
            self._open_bytes -= count
            self._changed.notify()


def read_frames(client: socket.socket, terminal: int, window: Window) -> None:
    with client.makefile("rb") as frames:
        while len(begin := frames.read(2)) == 2 and begin[0] in (0x81, 0x82):
            length = begin[1] & 127
            if length == 126:
                (length,) = struct.unpack("!H", frames.read(2))
            mask = frames.read(4)
            data = apply_mask(frames.read(length), mask)
            if begin[0] == 0x82:
                os.write(terminal, data)
            else:
                window.acknowledge(int(data))
    os._exit(0)


if __name__ == "__main__":
    main()
