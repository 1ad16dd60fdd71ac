"""Files of a directory, read and changed plainly: what the edit engine needs, without its walls."""

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.workspace.values import Delete, FileChange, Move, Operation, Write


class PlainFiles:
    """All or nothing: everything is checked before anything is written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read_bytes(self, path: str) -> tuple[bytes, int]:
        where = self._where(path)
        if not where.exists():
            raise NotFound(f"'{path}' does not exist.")
        if where.is_dir():
            raise BadRequest(f"'{path}' is a directory.")
        return where.read_bytes(), where.stat().st_mode

    def change(self, operations: Sequence[Operation]) -> list[FileChange]:
        changes = [self._checked(operation) for operation in operations]
        for operation in operations:
            self._make(operation)
        return changes

    def _checked(self, operation: Operation) -> FileChange:
        before = self._hash(operation.path)
        if before != operation.before:
            raise Conflict(f"'{operation.path}' is not as it was.")
        if isinstance(operation, Delete):
            return FileChange(operation.path, "deleted", before, None)
        after = sha256(operation.data).hexdigest() if operation.data is not None else before
        if isinstance(operation, Write):
            return FileChange(operation.path, "modified" if before else "created", before, after)
        if self._hash(operation.to) != operation.replaces:
            raise Conflict(f"'{operation.to}' is not as it was.")
        return FileChange(operation.to, "moved", before, after, operation.path)

    def _make(self, operation: Operation) -> None:
        where = self._where(operation.path)
        if isinstance(operation, Delete):
            where.unlink()
            return
        if isinstance(operation, Move):
            target = self._where(operation.to)
            target.parent.mkdir(parents=True, exist_ok=True)
            where = where.replace(target)
        where.parent.mkdir(parents=True, exist_ok=True)
        if operation.data is not None:
            where.write_bytes(operation.data)
        if operation.mode is not None:
            where.chmod(operation.mode)

    def _hash(self, path: str) -> str | None:
        where = self._where(path)
        return sha256(where.read_bytes()).hexdigest() if where.exists() else None

    def _where(self, path: str) -> Path:
        if path.startswith("/") or ".." in path.split("/"):
            raise BadRequest(f"'{path}' is not in the workspace.")
        return self.root / os.fsdecode(path)

    def tree(self) -> dict[str, bytes]:
        """Every file with its content."""
        return {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }
