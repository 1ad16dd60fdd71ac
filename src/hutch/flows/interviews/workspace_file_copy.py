"""A copy of the files of a workspace, for tests and linters that run in other jails."""

from hutch.domain.errors import Conflict
from hutch.domain.ids import SessionId
from hutch.domain.user_given_starter_files import MAX_BYTES, MAX_FILES, StarterFile
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import STATEMENT
from hutch.sessions.file_and_command_requests import ListFiles, ReadFile, SaveTypedText

CHUNK_BYTES = 1 << 20


async def copy_work(interviews: InterviewServices, session_id: SessionId) -> dict[str, StarterFile]:
    """A copy of the files of a workspace. Links are not followed, and ignored files are left out."""
    host = interviews.services.host
    await host.call(session_id, SaveTypedText())
    found: dict[str, StarterFile] = {}
    total, cursor = 0, None
    while True:
        page = await host.call(session_id, ListFiles(recursive=True, cursor=cursor))
        for entry in page.entries:
            if entry.kind != "file" or entry.path == STATEMENT:
                continue
            total += entry.size
            if len(found) >= MAX_FILES or total > MAX_BYTES:
                raise Conflict(
                    f"The work has more than {MAX_FILES} files, or more than {MAX_BYTES >> 20} MiB."
                )
            content = await _content(interviews, session_id, entry.path)
            found[entry.path] = StarterFile(content, executable=bool(entry.mode & 0o100))
        cursor = page.cursor
        if cursor is None:
            return found


async def _content(interviews: InterviewServices, session_id: SessionId, path: str) -> bytes:
    content = b""
    while True:
        part = await interviews.services.host.call(
            session_id, ReadFile(path, start=len(content), length=CHUNK_BYTES)
        )
        content += part.data
        if not part.data or len(content) >= part.size or len(content) > MAX_BYTES:
            return content
