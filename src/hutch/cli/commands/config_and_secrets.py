"""`hutch config`: show the settings with their origins, and manage secrets.

Users write settings in a file or the environment; this command shows the result. Secrets are set
with this command and stored encrypted; no command ever prints one.
"""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from hutch import settings
from hutch.app.allowed_local_repositories import settings_root
from hutch.cli.commands.config_init import init_command
from hutch.domain.errors import BadRequest, NotFound
from hutch.domain.hutch_secret_names import check_known, is_known
from hutch.domain.redaction import Redactor
from hutch.settings.repository_settings_file import config_file
from hutch.settings.schema import FIELDS, environment_variable
from hutch.settings.secret_source_settings import named_sources
from hutch.settings.value_as_toml import quote, to_toml
from hutch.store.signed_log_head_statements import Signer
from hutch.store.vault import MAX_SECRET_BYTES, Vault, check_name

app = typer.Typer(
    help="Show and check settings, and manage secrets.", no_args_is_help=True, add_completion=False
)

MAX_VALUE_BYTES = MAX_SECRET_BYTES + len("\r\n")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
SecretName = Annotated[str, typer.Argument(metavar="NAME", help="Such as anthropic_api_key or github_token.")]


@app.command()
def show(
    as_json: Json = False,
    repo: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Include the settings of the repository in DIR.")
    ] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="List every setting with its default; read no settings.")
    ] = False,
) -> None:
    """Show every setting with its value and its origin.

    The output is valid TOML and can be copied into a settings file. --defaults also works when
    your settings are invalid, and describes each setting.
    """
    if defaults:
        if repo is not None:
            raise BadRequest("--defaults reads no repository. Omit --repo or --defaults.")
        _show_defaults(as_json)
        return
    root = settings_root(settings.find_paths(), repo or Path())
    loaded = settings.load(repo=None if repo is None else root)
    for sentence in loaded.refused:
        typer.echo(f"warning: {sentence}", err=True)
    if note := _note_on_repository(root, is_included=repo is not None):
        typer.echo(f"hutch: {note}", err=True)
    values = {name: _clean(loaded.value(name)) for name in loaded.origins}
    if as_json:
        rows = {name: {"value": value, "origin": loaded.origins[name]} for name, value in values.items()}
        typer.echo(json.dumps({"settings": rows, "refused": loaded.refused}, indent=2))
        return
    for name, value in values.items():
        if value is None:
            typer.echo(f"# {name} is not set")
        else:
            origin = loaded.origins[name]
            typer.echo(f"{name} = {to_toml(value)}  # {origin if origin.isprintable() else quote(origin)}")


def _note_on_repository(root: Path, *, is_included: bool) -> str:
    """The settings file of a repository, if there is one, and when it counts."""
    file = config_file(root)
    if not os.path.lexists(file):
        return ""
    if not is_included:
        return f"'{file}' is not included. To include it: hutch config show --repo {shlex.quote(str(root))}"
    return (
        f"'{file}' is shown as it is now. `hutch run` uses the one in the commit that it starts from; "
        "`hutch shell` and `hutch mcp serve` use this one."
    )


def _show_defaults(as_json: bool) -> None:
    if as_json:
        rows = {
            name: {
                "default": field.default,
                "variable": environment_variable(name),
                "description": field.description,
            }
            for name, field in FIELDS.items()
        }
        typer.echo(json.dumps({"settings": rows}, indent=2))
        return
    for name, field in FIELDS.items():
        typer.echo(f"# {field.description}")
        default = _clean(field.default)
        typer.echo(f"# {name} is not set\n" if default is None else f"{name} = {to_toml(default)}\n")


@app.command()
def path(
    every: Annotated[
        bool, typer.Option("--all", help="Print every path, not only your settings file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print the path of your settings file. It need not exist.

    To edit it: $EDITOR "$(hutch config path)"
    """
    paths = settings.find_paths()
    named = {"config_file": paths.config_file}
    if every:
        named |= {"data": paths.data, "state": paths.state, "cache": paths.cache}
        named |= {"database": paths.database, "blobs": paths.blobs, "keys": paths.keys, "vault": paths.vault}
    if as_json:
        typer.echo(json.dumps({name: str(path) for name, path in named.items()}, indent=2))
    elif every:
        for name, path in named.items():
            typer.echo(os.fsencode(f"{name:<12} {path}"))
    else:
        typer.echo(os.fsencode(paths.config_file))


app.command("init")(init_command)


@app.command()
def set_secret(
    name: Annotated[str, typer.Argument(metavar="SECRET", help="Such as anthropic_api_key or github_token.")],
    from_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the value from this file.")
    ] = None,
) -> None:
    """Store a secret, encrypted.

    Prompts for the value without showing it, or reads it from standard input when that is not a
    terminal. It is never an argument: arguments end up in the shell's history.
    """
    check_name(name)
    check_known(name)
    _vault().set(name, _value(name, from_file))
    typer.echo(f"Secret {name} is set.", err=True)
    if source := _other_source(name):
        typer.echo(f"warning: It is not used: your settings take {name} from {source}.", err=True)


@app.command()
def unset_secret(name: SecretName) -> None:
    """Delete a secret."""
    _vault().delete(name)
    typer.echo(f"Secret {name} is deleted.", err=True)


@app.command()
def secrets(as_json: Json = False) -> None:
    """List the names of the secrets and where they come from. Values are never shown."""
    named = named_sources(settings.load().settings.secrets)
    sources = {**dict.fromkeys(_vault().names(), "vault"), **{name: _clean(named[name]) for name in named}}
    if as_json:
        rows = [{"name": name, "source": source} for name, source in sorted(sources.items())]
        typer.echo(json.dumps(rows))
        return
    width = max(map(len, sources), default=0)
    for name, source in sorted(sources.items()):
        typer.echo(f"{name:<{width}}  {source}")
        if not is_known(name):
            typer.echo(f"warning: Hutch uses no secret named {name}. Is it misspelt?", err=True)
    if not sources:
        typer.echo("There are no secrets. Set one with: hutch config set-secret NAME", err=True)


@app.command()
def rotate_keys() -> None:
    """Encrypt all secrets with a new key, and delete the old one.

    Interrupting it at any point is safe: the secrets stay readable.
    """
    count = _vault().rotate()
    typer.echo(f"{count} secret{'' if count == 1 else 's'} encrypted with a new key.", err=True)


@app.command()
def fingerprint() -> None:
    """Print the fingerprint of this installation's signing key.

    Give it to everyone who verifies your records: hutch verify RECORD --key FINGERPRINT.
    """
    typer.echo(Signer.open(settings.find_paths().signing_key).fingerprint)


def _other_source(name: str) -> str:
    """The source that the settings name for a secret; empty if they name none or cannot be read."""
    try:
        return str(_clean(named_sources(settings.load().settings.secrets).get(name, "")))
    except BadRequest:  # a secret can be set before the settings are corrected
        return ""


def _vault() -> Vault:
    paths = settings.find_paths()
    return Vault(paths.vault, paths.vault_keys)


def _value(name: str, from_file: Path | None) -> str:
    """A secret's value without the trailing newline."""
    not_text = f"The value of {name} is not UTF-8 text. Encode it first, as base64."
    if from_file is None and sys.stdin.isatty():
        try:
            typed: str = typer.prompt(f"Value of {name} (not shown)", hide_input=True, err=True)
            typed.encode()
        except UnicodeError:
            raise BadRequest(not_text) from None
        return typed
    try:
        raw = _read(from_file)
    except FileNotFoundError:
        raise NotFound(f"There is no file {str(from_file)!r} to read the secret {name} from.") from None
    except OSError as error:
        raise BadRequest(f"File {str(from_file)!r} cannot be read: {error.strerror}.") from None
    if len(raw) > MAX_VALUE_BYTES:
        raise BadRequest(f"The value of {name} is larger than {MAX_SECRET_BYTES // 1024} KiB.")
    try:
        return raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise BadRequest(not_text) from None


def _read(from_file: Path | None) -> bytes:
    if from_file is None:
        return sys.stdin.buffer.read(MAX_VALUE_BYTES + 1)
    with from_file.open("rb") as file:
        return file.read(MAX_VALUE_BYTES + 1)


def _clean(value: Any) -> Any:
    """A setting's value for JSON, with any credential in it redacted."""
    if isinstance(value, tuple):
        return [_clean(part) for part in value]
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_unset=True)
    if isinstance(value, dict):
        return {name: _clean(part) for name, part in value.items()}
    return Redactor().redact(value) if isinstance(value, str) else value
