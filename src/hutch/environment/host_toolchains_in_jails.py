"""Toolchains of the host that jails see, read-only and at the same path.

The owner or user names directories. A directory is shown only if it is recognised as a
toolchain, and of the homes of managers (~/.cargo, ~/.nvm, ~/.pyenv) only the parts with
programs: next to these lie tokens of registries. Homes, keys, directories of the system
and Hutch's own are refused.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import BadRequest, Denied
from hutch.jail.policy import HOME, PATH, WORKSPACE
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.admission.directory_checks import KEYS, OwnDirectories

REFUSED = ("/", "/boot", "/dev", "/etc", "/home", "/lib", "/proc", "/root", "/run", "/srv", "/sys", "/tmp")
REFUSED_BELOW = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys", "/var/log", "/var/spool", "/var/tmp")
VISIBLE_BELOW = "/usr"  # in every jail already
SECRET_FILES = (
    *("credentials", "credentials.toml", ".netrc", ".npmrc", ".pypirc", ".git-credentials", "auth.json"),
    *("id_rsa", "id_ed25519", ".env", "token", "keyring"),
)
MAX_TOOLCHAINS = 50
USUAL = (
    *("/opt/go", "/usr/local/go", "~/go-sdk", "~/.cargo", "~/.rustup", "~/.nvm", "~/.pyenv", "~/.sdkman"),
    *("/opt/java", "/opt/node", "/opt/python", "~/.deno", "~/.bun", "~/.local/share/uv/python"),
)
"""Where toolchains usually are, for `hutch doctor`."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """The parts of a toolchain that a jail sees."""

    name: str
    shown: tuple[str, ...]  # directories, at the same path
    path: tuple[str, ...]  # directories with programs
    variables: dict[str, str] = field(default_factory=dict)


def find_toolchains(named: Sequence[str], own: OwnDirectories) -> list[Toolchain]:
    """The toolchains in the named directories; refuses what is none, or would show secrets. Blocks."""
    if len(named) > MAX_TOOLCHAINS:
        raise BadRequest(f"jail.toolchains names {len(named)} directories; {MAX_TOOLCHAINS} is the maximum.")
    return [_toolchain(each, own) for each in dict.fromkeys(named)]


def propose_toolchains(named: Sequence[str], own: OwnDirectories) -> list[str]:
    """Toolchains of this machine that jails could see and do not. Blocks."""
    have = {os.path.realpath(os.path.expanduser(each)) for each in named}  # noqa: PTH111
    found = []
    for each in USUAL:
        try:
            toolchain = _toolchain(each, own)
        except (BadRequest, Denied):
            continue
        if toolchain.shown and os.path.realpath(os.path.expanduser(each)) not in have:  # noqa: PTH111
            found.append(each)
    return found


def toolchain_variables(toolchains: Sequence[Toolchain]) -> dict[str, str]:
    """The variables of a jail with these toolchains. Their programs come before those of the system."""
    if not toolchains:
        return {}
    path = [*dict.fromkeys(part for each in toolchains for part in each.path), PATH]
    return {"PATH": ":".join(path), **{k: v for each in toolchains for k, v in each.variables.items()}}


def toolchain_directories(toolchains: Sequence[Toolchain]) -> tuple[str, ...]:
    """The directories above the programs, for the versions that decide an environment."""
    return tuple(part.removesuffix("/bin") for each in toolchains for part in each.path)


def _toolchain(named: str, own: OwnDirectories) -> Toolchain:
    place = Path(os.path.realpath(os.path.expanduser(named)))  # noqa: PTH111
    about = f"jail.toolchains names {named!r}"
    if not place.is_dir():
        raise BadRequest(f"{about}, which is no directory. Install it, or remove it from the settings.")
    if reason := _reason_against(place, own):
        raise Denied(f"{about}, which {reason}. Name the directory of one toolchain, such as /opt/go.")
    for recognise in RECOGNISERS:
        if found := recognise(place):
            for each in found.shown:
                _check_shown(Path(each), own, about)
            return Toolchain(
                found.name,
                tuple(each for each in found.shown if not Path(each).is_relative_to(VISIBLE_BELOW)),
                found.path,
                found.variables,
            )
    raise BadRequest(
        f"{about}, which is no toolchain: it has no bin with programs. Name the directory above bin, such "
        "as /opt/go."
    )


def _check_shown(place: Path, own: OwnDirectories, about: str) -> None:
    real = Path(os.path.realpath(place))
    if reason := _reason_against(real, own):
        raise Denied(f"{about}, whose part {str(place)!r} {reason}.")
    if os.geteuid() == 0 and not all(parent.stat().st_mode & 0o001 for parent in real.parents):
        raise BadRequest(
            f"{about}, which only root can reach: a jail of a server that runs as root has another user. "
            "Install it where every user can read it, such as in /opt."
        )
    for name in SECRET_FILES:
        if (real / name).exists() or (real / name).is_symlink():
            raise Denied(
                f"{about}, and {str(real / name)!r} may hold a secret, which every command could read. Move "
                "it away, or name a directory below."
            )


def _reason_against(place: Path, own: OwnDirectories) -> str:
    """Why a directory is never shown; empty if it may be."""
    if str(place) in REFUSED or any(place.is_relative_to(each) for each in REFUSED_BELOW):
        return "is a directory of the system"
    if place.is_relative_to(HOME) or place.is_relative_to(WORKSPACE):
        return "is a path where a jail has its own files"
    if KEYS.intersection(place.parts):
        return "holds keys of a user"
    homes = {Path.home().resolve(), Path("/root")}
    if any(home.is_relative_to(place) for home in homes) or place.parent == Path("/home"):
        return "is or holds a home directory"
    for each in own.all:
        real = Path(os.path.realpath(each))
        if real.is_relative_to(place) or place.is_relative_to(real):
            return "holds Hutch's own data"
    return ""


def _go(place: Path) -> Toolchain | None:
    if _is_program(place / "bin/go") and (place / "src/runtime").is_dir():
        return _plain("go", place, GOROOT=str(place))
    return None


def _java(place: Path) -> Toolchain | None:
    if _is_program(place / "bin/java") and (place / "release").is_file():
        return _plain("java", place, JAVA_HOME=str(place))
    return None


def _cargo(place: Path) -> Toolchain | None:
    """~/.cargo: only its programs. Its registry and credentials stay out, and CARGO_HOME is writable."""
    if place.name == ".cargo" and _is_program(place / "bin/cargo"):
        shown, variables = [str(place / "bin")], {"CARGO_HOME": f"{HOME}/.cargo"}
        rustup = place.parent / ".rustup"
        if (rustup / "toolchains").is_dir():
            shown += _rustup_parts(rustup)
            variables["RUSTUP_HOME"] = str(rustup)
        return Toolchain("cargo", tuple(shown), (str(place / "bin"),), variables)
    return None


def _rustup(place: Path) -> Toolchain | None:
    if place.name == ".rustup" and (place / "toolchains").is_dir():
        bins = tuple(str(each / "bin") for each in _versions(place / "toolchains"))[:1]
        return Toolchain("rust", tuple(_rustup_parts(place)), bins, {"RUSTUP_HOME": str(place)})
    return None


def _rustup_parts(place: Path) -> list[str]:
    return [str(each) for each in (place / "toolchains", place / "settings.toml") if each.exists()]


def _managed(name: str, folder: str, versions: str, default: str) -> Callable[[Path], Toolchain | None]:
    """Recognises the home of a manager of versions: its default version, or the newest, is shown."""

    def recognise(place: Path) -> Toolchain | None:
        if place.name != folder or not (place / versions).is_dir():
            return None
        found = list(_versions(place / versions))
        wanted = _first_line(place / default)
        chosen = next((each for each in found if each.name.removeprefix("v").startswith(wanted)), None)
        if not found:
            return None
        best = chosen if wanted and chosen else found[0]
        return Toolchain(name, (str(best),), (str(best / "bin"),))

    return recognise


def _any(place: Path) -> Toolchain | None:
    """Any directory with programs in `bin`, outside of hidden directories of a home."""
    home = Path.home().resolve()
    if place.is_relative_to(home):
        inside = place.relative_to(home).parts
        if inside[0].startswith(".") and inside[:2] != (".local", "share") and not _has_tool(place):
            return None
    programs = place / "bin"
    return _plain(place.name, place) if programs.is_dir() and _has_programs(programs) else None


def _has_tool(place: Path) -> bool:
    return any(
        _is_program(place / "bin" / name) for name in ("node", "python3", "rustc", "deno", "bun", "ruby")
    )


RECOGNISERS: tuple[Callable[[Path], Toolchain | None], ...] = (
    _go,
    _java,
    _cargo,
    _rustup,
    _managed("node", ".nvm", "versions/node", "alias/default"),
    _managed("python", ".pyenv", "versions", "version"),
    _any,
)


def _plain(name: str, place: Path, **variables: str) -> Toolchain:
    return Toolchain(name, (str(place),), (str(place / "bin"),), variables)


def _versions(folder: Path) -> Iterator[Path]:
    """Versions with programs, the newest first."""
    found = [each for each in folder.iterdir() if each.is_dir() and (each / "bin").is_dir()]
    yield from sorted(found, key=_number, reverse=True)


def _number(place: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d{1,9}", place.name)]


def _first_line(file: Path) -> str:
    try:
        with file.open() as opened:
            return opened.readline(100).strip().removeprefix("v")
    except (OSError, UnicodeDecodeError):
        return ""


def _is_program(file: Path) -> bool:
    return file.is_file() and os.access(file, os.X_OK)


def _has_programs(folder: Path) -> bool:
    try:
        return any(_is_program(each) for each in folder.iterdir())
    except OSError:
        return False
