"""A Chromium whose pages nobody observes: commands over its DevTools socket, and no events.

Playwright always asks for network events. Chromium then copies every byte of a WebSocket, in base64, to the
browser process and on to Playwright: for a flood in a terminal that takes as much processor time as xterm.
"""

import asyncio
import itertools
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bench.server_and_browser import COOKIE, Server
from websockets.asyncio.client import ClientConnection, connect

# Not the script in /usr/bin: it would stay between us and the process that has to be ended.
PROGRAM = "/usr/lib/chromium/chromium-headless-shell"
OPTIONS = ("--no-sandbox", "--remote-debugging-port=0", "--disable-dev-shm-usage")
ANNOUNCEMENT = b"DevTools listening on "
WIDTH, HEIGHT = 1280, 800
ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}


class DevTools:
    """The connection to a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket, self._numbers = socket, itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def read(self) -> None:
        async for text in self._socket:
            message = json.loads(text)
            if answer := self._answers.pop(message.get("id"), None):
                answer.set_result(message)

    async def call(self, method: str, session: str = "", /, **parameters: object) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": parameters}
        await self._socket.send(json.dumps({**message, **({"sessionId": session} if session else {})}))
        answered = await answer
        assert "error" not in answered, (method, answered)
        return answered["result"]

    async def new_page(self, address: str = "about:blank") -> "Page":
        target = await self.call("Target.createTarget", url="about:blank", width=WIDTH, height=HEIGHT)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = Page(self, str(attached["sessionId"]))
        if address != "about:blank":
            await page.call("Page.navigate", url=address)
        return page

    async def log_in(self, place: Server) -> None:
        """Give all pages the cookie of a login."""
        name = f"hutch_{place.url.rpartition(':')[2]}"
        cookie = {"name": name, "value": (place.home / COOKIE).read_text(), "url": place.url}
        await self.call("Storage.setCookies", cookies=[cookie])


class Page:
    """A tab."""

    def __init__(self, devtools: DevTools, session: str) -> None:
        self._devtools, self._session = devtools, session

    async def call(self, method: str, **parameters: object) -> Any:
        return await self._devtools.call(method, self._session, **parameters)

    async def show(self) -> None:
        await self.call("Page.bringToFront")

    async def evaluate(self, expression: str, *arguments: object) -> Any:
        """The value of a script, or the one that a function returns for these arguments."""
        if arguments:
            expression = f"({expression})({', '.join(map(json.dumps, arguments))})"
        options = {"awaitPromise": True, "returnByValue": True}
        done = await self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    async def wait_for(self, selector: str) -> None:
        """Wait until an element is there."""
        script = """async (selector) => {
            while (!document.querySelector(selector)) await new Promise((done) => setTimeout(done, 50));
        }"""
        await self.evaluate(script, selector)

    async def type(self, text: str) -> None:
        for character in text:
            key = {**ENTER, "text": "\r"} if character == "\n" else {"key": character, "text": character}
            await self.call("Input.dispatchKeyEvent", type="keyDown", **key)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key["key"])


@asynccontextmanager
async def chromium() -> AsyncIterator[DevTools]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [PROGRAM, *OPTIONS, f"--user-data-dir={profile}", "about:blank"]
        process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        assert process.stderr is not None
        try:
            while not (line := await process.stderr.readline()).startswith(ANNOUNCEMENT):
                assert line, "Chromium has not started"
            address = line.removeprefix(ANNOUNCEMENT).decode().strip()
            async with connect(address, max_size=None, compression=None, ping_interval=None) as socket:
                devtools = DevTools(socket)
                reading = asyncio.ensure_future(devtools.read())
                yield devtools
                reading.cancel()
        finally:
            process.terminate()
            await process.wait()
