"""A local server with OpenAI's embeddings endpoint, whose model knows a few concepts."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONCEPTS = (
    ("car", "automobile", "vehicle"),
    ("wait", "backoff", "pause"),
    ("money", "invoice", "billing"),
)


class EmbeddingServer:
    """The received requests, and the status of the next responses."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.status = 200

    @property
    def texts(self) -> list[str]:
        return [text for body in self.requests for text in body["input"]]

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        rows = [
            {"object": "embedding", "index": number, "embedding": vector(text, body.get("dimensions"))}
            for number, text in enumerate(body["input"])
        ]
        usage = {"prompt_tokens": len(rows), "total_tokens": len(rows)}
        rows.reverse()  # the index counts, not the order
        return {"object": "list", "model": body["model"], "data": rows, "usage": usage}


def vector(text: str, dimensions: int | None = None) -> list[float]:
    lower = text.lower()
    counts = [float(sum(lower.count(word) for word in words)) for words in CONCEPTS]
    return [0.01, *counts, *([0.0] * max(0, (dimensions or 8) - 4))]


@contextmanager
def embedding_server() -> Iterator[EmbeddingServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.keys.add(self.headers.get("Authorization", ""))
            if state.status == 200:
                state.requests.append(body)
            is_known = self.path == "/v1/embeddings"
            status = state.status if is_known else 404
            sent = json.dumps(state.reply(body) if status == 200 else {"error": {"message": "no"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: Any) -> None:
            """Requests are not printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = EmbeddingServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
