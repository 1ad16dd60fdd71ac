"""The catalogue: one JSON file that lists extensions, in the shape that other clients of MCP read too.

`{"mcpServers": {"NAME": {"command": "/opt/x/bin/server", "workspace": "read"}}}`. To be listed is not to be
approved: nothing runs before an owner has approved it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hutch.agent.extensions.extension_manifest import Manifest, parse_manifest
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound
from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass

SERVERS = "mcpServers"
MAX_BYTES = 1024 * 1024
MAX_EXTENSIONS = 100


@dataclass(frozen=True, slots=True)
class Unusable:
    """An entry with an error."""

    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class Catalogue:
    """A catalogue file, which need not exist. The methods block the thread."""

    path: Path

    def entries(self) -> list[Manifest | Unusable]:
        """All entries. An error in one does not hide the others."""
        found: list[Manifest | Unusable] = []
        for name, values in self._read().items():
            try:
                found.append(parse_manifest(name, values))
            except HutchError as error:
                found.append(Unusable(name, str(error)))
        return found

    def find(self, name: str) -> Manifest:
        servers = self._read()
        if name not in servers:
            known = ", ".join(servers) or "none"
            raise NotFound(f"There is no extension '{name}' in {self.path}. Listed: {known}.")
        return parse_manifest(name, servers[name])

    def add(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> Manifest:
        """Write an entry, if it is valid."""
        manifest = parse_manifest(name, values)
        whole = self._whole()
        servers = whole.setdefault(SERVERS, {})
        if name in servers and not replace:
            raise Conflict(f"There is an extension '{name}' already. Remove it first, or replace it.")
        servers[name] = dict(values)
        if len(servers) > MAX_EXTENSIONS:
            raise BadRequest(f"A catalogue lists {MAX_EXTENSIONS} extensions at most.")
        self._write(whole)
        return manifest

    def remove(self, name: str) -> None:
        whole = self._whole()
        if name not in whole.get(SERVERS, {}):
            raise NotFound(f"There is no extension '{name}' in {self.path}.")
        del whole[SERVERS][name]
        self._write(whole)

    def _read(self) -> dict[str, Any]:
        return dict(list(self._whole().get(SERVERS, {}).items())[:MAX_EXTENSIONS])

    def _whole(self) -> dict[str, Any]:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadRequest(f"The catalogue {self.path} cannot be read: {error.strerror}.") from None
        try:
            if len(content) > MAX_BYTES:
                raise ValueError("it is larger than 1 MiB")
            whole = json.loads(content)
            if not isinstance(whole, dict) or not isinstance(whole.get(SERVERS, {}), dict):
                raise ValueError(f'it should be {{"{SERVERS}": {{"NAME": {{…}}}}}}')
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"The catalogue {self.path} cannot be used: {error}.") from None
        return whole

    def _write(self, whole: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps(whole, indent=2, ensure_ascii=False)
        replace_file(self.path, f"{text}\n", mode=0o600, durable=True)
