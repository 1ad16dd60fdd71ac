"""A real browser: Chromium without windows, driven from outside.

Debian builds the headless shell from the same source as the browser with windows. Pages do not differ, and
tests take little more than half of the processor time: no tab strip is loaded, and no GPU is simulated.
"""

import datetime
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from playwright.async_api import Browser, async_playwright
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.deadline import DEADLINE_S
from tests.gateway.request_filter_server import serving

CHROMIUM = "/usr/bin/chromium-headless-shell"


@asynccontextmanager
async def chromium(*names: str) -> AsyncIterator[Browser]:
    """A browser for which these names lead to this machine."""
    rules = ",".join(f"MAP {name} 127.0.0.1" for name in names)
    args = ["--no-sandbox", "--disable-gpu", *([f"--host-resolver-rules={rules}"] if rules else [])]
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=args, timeout=DEADLINE_S * 1000
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def page_of_another(html: str) -> AsyncIterator[int]:
    """A foreign web site on a port of its own, with one page."""

    async def page(request: Any) -> HTMLResponse:
        return HTMLResponse(html)

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(Starlette(routes=[Route("/", page)]), log_config=None, lifespan="off")
    async with serving(config, listener):
        yield listener.getsockname()[1]


def certificate(place: Path) -> tuple[Path, Path]:
    """A self-signed certificate for this machine, and its key."""
    place.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = place / "cert.pem", place / "key.pem"
    cert_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return cert_file, key_file
