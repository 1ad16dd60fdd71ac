"""Local package registries: static files on loopback, and what package managers expect of them."""

import base64
import hashlib
import io
import json
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ADDRESS = "127.0.0.2"  # programs in a jail use no proxy for 127.0.0.1


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    """Serve a directory; gives host and port."""
    server = ThreadingHTTPServer((ADDRESS, 0), partial(_Handler, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{ADDRESS}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def add_wheel(directory: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """Add a wheel to a static index of Python packages in `simple/`."""
    package = directory / "simple" / name
    package.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, *metadata, f"{info}/RECORD"))
    wheel = package / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, **metadata, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    links = "".join(f'<a href="{each.name}">{each.name}</a>\n' for each in sorted(package.glob("*.whl")))
    (package / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>\n")


def add_npm_package(
    directory: Path, host: str, name: str, version: str, files: Mapping[str, str], **fields: object
) -> None:
    """Add a package to a static npm registry: its document, and its tarball with the right digests."""
    package = {"name": name, "version": version, **fields}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {"package.json": json.dumps(package), **files}.items():
            data = text.encode()
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    tarball = buffer.getvalue()
    (directory / "tarballs").mkdir(parents=True, exist_ok=True)
    (directory / "tarballs" / f"{name}-{version}.tgz").write_bytes(tarball)
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(tarball).digest()).decode()}"
    dist = {
        "tarball": f"http://{host}/tarballs/{name}-{version}.tgz",
        "integrity": integrity,
        "shasum": hashlib.sha1(tarball, usedforsecurity=False).hexdigest(),
    }
    document = {
        "name": name,
        "dist-tags": {"latest": version},
        "versions": {version: {**package, "dist": dist, "hasInstallScript": "scripts" in fields}},
    }
    (directory / name).write_text(json.dumps(document))
