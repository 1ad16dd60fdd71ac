"""Runs git on the host, with credentials and without hooks.

Every call has its own environment and settings that no repository can change. Only
network calls for a permitted caller see the account's home, keys and credential helpers;
all other calls run as if there were no user. It works only on repositories that Hutch
made: others may contain settings that run programs, so they are read inside a jail.
"""

import asyncio
import contextlib
import io
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from hutch.domain.errors import Unavailable
from hutch.domain.truncation_before_redaction import last_words
from hutch.forge.git_errors import explain
from hutch.forge.git_progress import OnProgress, StderrParser
from hutch.forge.host_process_limits import MAX_FILE_BYTES, limit_command, process_group
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

# Proxy and certificate variables that are passed on; never git's own variables.
NETWORK_VARIABLES = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"),
)
# Variables that lead to credentials of the account.
ACCOUNT_VARIABLES = (
    *("HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
    *("SSH_AUTH_SOCK", "GNUPGHOME", "KRB5CCNAME"),
    *("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR"),
)
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
NO_ACCOUNT = {"HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null"}
# ssh and Kerberos find credentials of the account without HOME.
NO_KERBEROS = {"KRB5CCNAME": "FILE:/nonexistent/ticket"}
NO_SSH_KEYS = (
    " -F/dev/null -oPubkeyAuthentication=no -oHostbasedAuthentication=no -oGSSAPIAuthentication=no"
    " -oIdentityAgent=none"
)
BASE_ENVIRONMENT = {
    "LC_ALL": "C",  # errors are recognized by their text
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=20 -oControlMaster=no -oControlPath=none "
    "-oForwardAgent=no -oForwardX11=no -oClearAllForwardings=yes -oPermitLocalCommand=no",
}
FIXED_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.symlinks": "true",
    "core.fileMode": "true",
    "core.autocrlf": "false",
    "core.askPass": "",
    "core.editor": "false",
    "core.pager": "cat",
    "core.quotePath": "true",
    "init.templateDir": "",
    "init.defaultBranch": "main",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.unpackLimit": "1",  # packs only: a file that never changes can be hard-linked
    "transfer.unpackLimit": "1",
    "transfer.bundleURI": "false",
    "fetch.bundleURI": "",
    "filter.lfs.clean": "",
    "filter.lfs.smudge": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "protocol.version": "2",
    "protocol.allow": "never",
    "protocol.ext.allow": "never",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "ssh.variant": "ssh",
    "pack.threads": "2",
    "core.packedGitWindowSize": "64m",  # do not map large packs whole, to limit memory
    "core.packedGitLimit": "1g",
    "transfer.fsckObjects": "true",
}
# Old, harmless faults that every forge accepts, and faults in submodules, which are never fetched.
TOLERATED_FAULTS = (
    *("zeroPaddedFilemode", "zeroPaddedDate", "badTimezone", "badDate", "badDateOverflow", "badEmail"),
    *("missingEmail", "missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail"),
    *(
        "missingTaggerEntry",
        "badName",
        "badTagName",
        "nullSha1",
        "nulInCommit",
        "gitmodulesUrl",
        "gitmodulesName",
    ),
    *("gitmodulesPath", "gitmodulesUpdate", "gitmodulesParse", "gitmodulesMissing", "gitmodulesBlob"),
    *("gitmodulesLarge", "gitmodulesSymlink"),
)
# For addresses with credentials: passes these to git and stores nothing.
CREDENTIAL_HELPER = (
    '!f() { test "$1" != get || printf "username=%s\\npassword=%s\\n" '
    '"$HUTCH_GIT_USER" "$HUTCH_GIT_PASSWORD"; }; f'
)
TIMEOUT_S = 600.0
MAX_OUTPUT_BYTES = 256 * 1024 * 1024


class GitFailed(Unavailable):
    """git failed. Callers interpret its standard error."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        why = last_words(stderr.strip(), 2000) or "no reason given"
        super().__init__(f"git {command} failed ({code}): {why}")
        self.exit_code = code
        self.stderr = stderr


@dataclass(frozen=True, slots=True)
class Git:
    """git on the host. Of `environ`, only a few variables are passed on, and only to network calls."""

    environ: Mapping[str, str]
    file_bytes: int = MAX_FILE_BYTES  # of the largest file that it may write, such as a pack

    async def run(
        self,
        *words: str,
        git_dir: Path | None = None,
        work_tree: Path | None = None,
        remote: RepoUrl | None = None,
        settings: Mapping[str, str] | None = None,
        stdin: bytes | int | None = None,
        on_progress: OnProgress | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int | None = None,
    ) -> bytes:
        """Run git and return its standard output, or the first `max_bytes` of that.

        `stdin` is the input, or a descriptor to read it from. With `remote`, git may contact that
        repository, with the account's credentials if the address allows that, and errors contain advice.
        Without it, git has no network access, and errors are `GitFailed`.
        """
        environment = self.environment(remote)
        if git_dir is not None:
            environment["GIT_DIR"] = str(git_dir)
        if work_tree is not None:
            environment["GIT_WORK_TREE"] = str(work_tree)
        pairs = {**fixed_settings(), **_pinned_settings(remote), **(settings or {})}.items()
        options = [word for name, value in pairs for word in ("-c", f"{name}={value}")]
        program = shutil.which("git", path=environment["PATH"])
        if program is None:
            raise Unavailable("git is not installed. Install it: sudo apt-get install -y git")
        parser = StderrParser(on_progress)
        starting = asyncio.create_subprocess_exec(
            *limit_command(program, *options, *words, file_bytes=self.file_bytes),
            env=environment,
            cwd=work_tree or git_dir or "/",
            stdin=_input(stdin),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # so that its children can be killed too
            umask=0o022,
        )
        async with process_group(starting) as process:
            try:
                async with asyncio.timeout(timeout_s):
                    input_bytes = stdin if isinstance(stdin, bytes) else None
                    printed = await _communicate(process, input_bytes, parser, max_bytes)
                    code = await process.wait()
            except TimeoutError:
                what = f"{words[0]} of {remote}" if remote else words[0]
                raise Unavailable(
                    f"git {what} took more than {timeout_s:g} s and was stopped. Retry later."
                ) from None
        if code != 0:
            stderr = _redact(parser.messages(), remote)
            raise explain(stderr, remote) if remote else GitFailed(words[0], code, stderr)
        return printed

    def environment(self, remote: RepoUrl | None = None) -> dict[str, str]:
        """The whole environment of git."""
        path = ":".join(part for part in self.environ.get("PATH", "").split(":") if part.startswith("/"))
        environment = {**BASE_ENVIRONMENT, "PATH": path or DEFAULT_PATH, "GIT_ALLOW_PROTOCOL": ""}
        if remote is None:
            return environment | NO_ACCOUNT
        passed_on = (*NETWORK_VARIABLES, *ACCOUNT_VARIABLES) if remote.account else NETWORK_VARIABLES
        environment |= {name: self.environ[name] for name in passed_on if name in self.environ}
        if not remote.account:
            environment |= NO_ACCOUNT | NO_KERBEROS
            environment["GIT_SSH_COMMAND"] += NO_SSH_KEYS
        # A redirect must not lead from https to plain http.
        environment["GIT_ALLOW_PROTOCOL"] = "http:https" if remote.transport == "http" else remote.transport
        if remote.pinned and remote.transport == "ssh":
            alias = remote.host if remote.port == 22 else f"[{remote.host}]:{remote.port}"
            environment["GIT_SSH_COMMAND"] += f" -oHostName={remote.pinned[0]} -oHostKeyAlias={alias}"
            environment["GIT_SSH_COMMAND"] += " -oCanonicalizeHostname=no"
        if remote.credentials is not None:
            # Every user of the machine can read arguments, but not the environment.
            user, password = remote.credentials
            environment |= {"HUTCH_GIT_USER": user, "HUTCH_GIT_PASSWORD": password}
            environment |= {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "credential.helper"}
            # Sent only to the host that they are for, and not to a proxy.
            place = "/".join(remote.address.split("/", 3)[:3])
            environment |= {"GIT_CONFIG_VALUE_0": "", "GIT_CONFIG_KEY_1": f"credential.{place}.helper"}
            environment["GIT_CONFIG_VALUE_1"] = CREDENTIAL_HELPER
        return environment


def fixed_settings() -> dict[str, str]:
    """The settings of every call, which no repository can change."""
    return FIXED_SETTINGS | {f"fetch.fsck.{name}": "warn" for name in TOLERATED_FAULTS}


def strict_option() -> str:
    """The tolerated faults as an option of `index-pack`."""
    return "--strict=" + ",".join(f"{name}=warn" for name in TOLERATED_FAULTS)


def _pinned_settings(remote: RepoUrl | None) -> dict[str, str]:
    """Settings that pin the addresses of the host, and forbid redirects from pinned hosts and with
    credentials."""
    if remote is None or remote.transport == "ssh" or not (remote.pinned or remote.credentials):
        return {}
    if not remote.pinned:
        return {"http.followRedirects": "false"}
    host = f"[{remote.host}]" if ":" in remote.host else remote.host
    addresses = ",".join(f"[{each}]" if ":" in each else each for each in remote.pinned)
    return {"http.curloptResolve": f"{host}:{remote.port}:{addresses}", "http.followRedirects": "false"}


def _input(stdin: bytes | int | None) -> int:
    if isinstance(stdin, int):
        return stdin
    return asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE


async def _communicate(
    process: asyncio.subprocess.Process, stdin: bytes | None, parser: StderrParser, max_bytes: int | None
) -> bytes:
    """Write standard input, and read both output streams to their end."""
    printed, _, _ = await asyncio.gather(
        _read_stdout(process, max_bytes), _read_stderr(process, parser), _feed(process, stdin)
    )
    return printed


async def _feed(process: asyncio.subprocess.Process, data: bytes | None) -> None:
    if data is None or process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # git reports the reason itself
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _read_stderr(process: asyncio.subprocess.Process, parser: StderrParser) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(65536):
        parser.feed(data)


async def _read_stdout(process: asyncio.subprocess.Process, max_bytes: int | None) -> bytes:
    assert process.stdout is not None
    output, total = io.BytesIO(), 0  # returns its bytes without copying, unlike joining chunks
    while data := await process.stdout.read(1 << 20):
        if max_bytes is not None:
            data = data[: max(0, max_bytes - total)]
        total += len(data)
        if total > MAX_OUTPUT_BYTES:
            raise Unavailable(
                f"git printed more than {MAX_OUTPUT_BYTES} bytes. This repository is too large."
            )
        output.write(data)
    return output.getvalue()


def _redact(stderr: str, remote: RepoUrl | None) -> str:
    if remote is None or remote.credentials is None:
        return stderr
    user, password = remote.credentials
    secret = password or user  # the user name alone may be a token
    for spelled in (secret, quote(secret, safe="")):
        stderr = stderr.replace(spelled, "…")
    return stderr
