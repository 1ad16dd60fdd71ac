"""A program that serves unusual and hostile pages in a jail. The jail's Python runs it."""

PROGRAM = r"""
import base64, hashlib, http.server, socket, struct, sys, threading, time

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        with open("/workspace/requests", "a") as file:
            print(*args, file=file)

    def send(self, status, body, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send(200, b"%d:%s" % (len(body), hashlib.sha256(body).hexdigest().encode()))

    def do_GET(self):
        path = self.path.partition("?")[0]
        raw = {
            "/nonsense": b"this is no HTTP\r\n\r\n",
            "/huge": b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
            "/half": b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this",
            "/two": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            "/split": b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: hutch=1\r\nContent-Length: 0\r\n\r\n",
            "/nothing": b"",
            "/999": b"HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok",
            "/both": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "/after": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\nsmuggled",
        }.get(path)
        if raw is not None:
            self.wfile.write(raw)
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        elif path == "/headers":
            text = "".join(f"{name.lower()}: {value}\n" for name, value in self.headers.items())
            self.send(200, (self.path + "\n" + text).encode())
        elif path == "/cookies":
            self.send(
                200,
                b"cookies",
                ("Set-Cookie", "mine=1; Path=/"),
                ("Set-Cookie", "wide=1; Domain=localhost; Path=/"),
                ("Set-Cookie", "hutch_preview=stolen; Path=/"),
                ("Set-Cookie", "__Host-hutch=stolen; Path=/; Secure"),
                ("Strict-Transport-Security", "max-age=9"),
                ("Alt-Svc", "h3=evil"),
                ("Connection", "X-Secret"),
                ("X-Secret", "hop"),
            )
        elif path == "/redirect":
            self.send(302, b"", ("Location", f"http://localhost:{self.server.server_port}/headers"))
        elif path == "/slow":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for number in range(5):
                self.wfile.write(b"2\r\n%d\n\r\n" % number)
                self.wfile.flush()
                time.sleep(0.1)
            self.wfile.write(b"0\r\n\r\n")
        elif path == "/endless":
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except OSError:
                open("/workspace/let-go", "w").close()
            self.close_connection = True
        elif path == "/socket":
            self.socket()
        elif path == "/attack":
            self.send(200, ATTACK, ("Content-Type", "text/html"))
        else:
            self.send(200, b"<h1>Hello from the jail</h1>", ("Content-Type", "text/html"))

    def socket(self):
        key = self.headers["Sec-WebSocket-Key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        if "chat" in self.headers.get("Sec-WebSocket-Protocol", ""):
            self.send_header("Sec-WebSocket-Protocol", "chat")
        self.end_headers()
        self.close_connection = True
        while True:
            head = self.rfile.read(2)
            size = head[1] & 127
            if size == 126:
                size = struct.unpack("!H", self.rfile.read(2))[0]
            elif size == 127:
                size = struct.unpack("!Q", self.rfile.read(8))[0]
            mask = self.rfile.read(4)
            data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))
            if data == b"many":
                self.wfile.write(b"\x89\x00" * 50000 + b"\x81\x04done")
                continue
            if data == b"bye":
                self.wfile.write(b"\x88\x05\x0f\xa1end")
                return
            if head[0] & 15 == 8:
                open("/workspace/left", "w").write(str(struct.unpack("!H", data[:2])[0]))
                return
            length = bytes([size]) if size < 126 else struct.pack("!BH", 126, size)
            self.wfile.write(bytes([head[0]]) + length + data)
            self.wfile.flush()


ATTACK = open("/workspace/attack.html", "rb").read() if len(sys.argv) > 2 else b""
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page)
open("/workspace/listening", "w").close()
server.serve_forever()
"""
