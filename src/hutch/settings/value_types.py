"""The types of settings, each with the message for a wrong value."""

import re
from ipaddress import ip_address, ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field

from hutch.domain.errors import BadRequest
from hutch.domain.jail_variable_and_secret_check import checked_variables
from hutch.domain.one_line_text import check_model_name

GIB, MIB = 1024**3, 1024**2
SIZE_HINT = "It should be a size such as 512MiB"


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("It should be a number, not true or false")
    return value


def _size(value: object) -> object:
    # Bounded, so that no number of digits can overflow a float.
    if isinstance(value, str) and not re.fullmatch(r"\d{1,18}(\.\d{1,6})?\s?[A-Za-z]{0,3}", value.strip()):
        raise ValueError(SIZE_HINT)
    return _not_bool(value)


def split_list(value: object) -> object:
    """A list; in the environment and in flags also `one,two`."""
    if not isinstance(value, str):
        return value
    if re.match(r"\s*\[\s*[\"']", value):  # an address in brackets has no quotes
        raise ValueError("It should be a list with commas, without brackets and quotes: one,two")
    return tuple(part.strip() for part in value.split(",") if part.strip())


def _host(value: str) -> str:
    if len(value) > 253 or not re.fullmatch(
        r"(\*\.)?([a-z0-9_]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9-]+", value.lower()
    ):
        raise ValueError("It should be a host such as docs.example.com, or *.example.org for all under it")
    return value.lower()


def _network(value: str) -> str:
    try:
        return str(ip_network(value))
    except ValueError:
        raise ValueError("It should be a network such as 10.1.2.0/24, or one address") from None


def _reachable(value: str) -> str:
    try:
        return str(ip_network(value.strip("[]"))) if "/" in value else str(ip_address(value.strip("[]")))
    except ValueError:
        if "/" in value or "*" in value:
            raise ValueError(
                "It should be a host such as git.example.com, or a network: 10.1.2.0/24"
            ) from None
    return _host(value)


def _forge(value: str) -> str:
    found = re.fullmatch(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/]+)(?::(?P<port>\d{1,5}))?", value)
    port = int(found["port"] or 443) if found else 0
    if found is None or not 0 < port < 65536 or "*" in value:
        raise ValueError("It should be a host, with its port unless that is 443: git.example.com:8443")
    host = _reachable(found["host"])
    return host if port == 443 else f"{host}:{port}"


def _directory(value: str) -> str:
    if not value.startswith("/") or "\0" in value:
        raise ValueError("It should be an absolute path of a directory: /srv/git")
    return value


def _persona(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,63}", value):
        raise ValueError("It should be a persona's name: lower-case letters, digits, - and _")
    return value


def _model(value: str) -> str:
    try:
        check_model_name(value)
    except BadRequest:
        raise ValueError("It should be a model such as ollama:NAME, without control characters") from None
    return value


def _command(value: str) -> str:
    if not value.strip():
        raise ValueError("It should be a command")
    if not all(character.isprintable() or character in "\n\t" for character in value):
        raise ValueError("It should be a command without control characters")
    return value


def _report(value: str) -> str:
    parts = value.split("/")
    if not value.strip() or len(value) > 200 or not value.isprintable() or value.startswith(("/", "-")):
        raise ValueError("It should be a path or pattern inside the repository: reports/*.xml")
    if ".." in parts or any(character in value for character in "\\\"'`$;&|<>(){}! "):
        raise ValueError("It should be a path or pattern without spaces, quotes and `..`: reports/*.xml")
    return value


def _author(value: str) -> str:
    if not re.fullmatch(r"[^<>\x00-\x1f]*[^<>\x00-\x20] *<[^<>\x00-\x20]+>", value):
        raise ValueError("It should be an author such as Ada Lovelace <ada@example.org>")
    return value


def _address(value: str) -> str:
    try:
        url = urlsplit(value)
        is_http = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        is_http = False
    if not is_http or url.username is not None or not value.isprintable():
        raise ValueError("It should be an address such as https://models.example.com/v1, without a password")
    return value


def _price(value: str) -> str:
    number = r"\d{1,9}(\.\d{1,9})?"
    if not re.fullmatch(rf"[a-z-]+:[^=\s]+={number}/{number}/{number}", value):
        raise ValueError(
            "It should be dollars per million input, cached and output tokens, such as "
            "openai-compatible:qwen3=0.25/0.025/1.5"
        )
    return value


def _listener(value: str) -> str:
    try:
        return str(ip_address(value))
    except ValueError:
        if value != "localhost":
            raise ValueError("It should be an address of this machine such as 127.0.0.1 or 0.0.0.0") from None
    return "127.0.0.1"


def _issuer(value: str) -> str:
    if urlsplit(_address(value)).query or urlsplit(value).fragment:
        raise ValueError("It should be the provider's own issuer URL, without ? and #")
    return value


Count = Annotated[int, BeforeValidator(_not_bool)]
Amount = Annotated[float, BeforeValidator(_not_bool), Field(allow_inf_nan=False)]
Size = Annotated[ByteSize, BeforeValidator(_size), Field(le=1024**6)]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
Address = Annotated[str, Field(max_length=2048), AfterValidator(_address)]


def parse_host_pattern(value: str) -> str:
    host, colon, port = value.partition(":")
    if value == "*":
        return value
    if colon and not (port.isdecimal() and port.isascii() and 0 < int(port) < 65536):
        raise ValueError("It should be a host, or a host and a port: docs.example.com:8443")
    return f"{_host(host)}{colon}{port}"


Author = Annotated[Text, AfterValidator(_author)]
Command = Annotated[Text, AfterValidator(_command)]
ReportPattern = Annotated[Text, AfterValidator(_report)]
ModelName = Annotated[Text, AfterValidator(_model)]
Persona = Annotated[str, AfterValidator(_persona)]
Listener = Annotated[str, AfterValidator(_listener)]
Issuer = Annotated[str, Field(max_length=2048), AfterValidator(_issuer)]
Prices = Annotated[tuple[Annotated[str, AfterValidator(_price)], ...], BeforeValidator(split_list)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(split_list), Field(max_length=1000)]
Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(split_list)]
Reachables = Annotated[tuple[Annotated[str, AfterValidator(_reachable)], ...], BeforeValidator(split_list)]
Forges = Annotated[tuple[Annotated[str, AfterValidator(_forge)], ...], BeforeValidator(split_list)]
Directories = Annotated[tuple[Annotated[Text, AfterValidator(_directory)], ...], BeforeValidator(split_list)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], BeforeValidator(split_list)]
HostPatterns = Annotated[
    tuple[Annotated[str, AfterValidator(parse_host_pattern)], ...], BeforeValidator(split_list)
]


def _variables(value: object) -> object:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError('It should be a table of the settings file: variables = { NAME = "value" }')
    try:
        return dict(checked_variables(value))
    except BadRequest as error:
        raise ValueError(str(error).rstrip(".")) from None


Variables = Annotated[dict[str, str], BeforeValidator(_variables)]


class Section(BaseModel):
    """A group of settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
