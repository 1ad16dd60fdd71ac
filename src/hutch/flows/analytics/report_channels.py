"""Channels that carry a report: e-mail, a signed webhook, a directory. Each blocks its thread.

A channel raises `NotSent` only if nothing can have arrived; any other failure leaves that in doubt, and the
report is not sent again.
"""

import hashlib
import hmac
import json
import smtplib
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass

TIMEOUT_S = 20.0
ReadSecret = Callable[[str], str]  # empty if it is not set


class NotSent(Exception):
    """Nothing arrived, so the report may be sent again."""


@dataclass(frozen=True, slots=True)
class Message:
    """A report or an alert: its name, a line, a text, and the same as data."""

    name: str
    subject: str
    text: str
    data: Mapping[str, Any]


class Channel(Protocol):
    """A way to send messages."""

    @property
    def name(self) -> str: ...

    def send(self, message: Message) -> None: ...


@dataclass(frozen=True, slots=True)
class EmailChannel:
    """E-mail over SMTP, one message for all recipients."""

    host: str
    port: int
    security: Literal["none", "starttls", "tls"]
    user: str
    sender: str
    recipients: tuple[str, ...]
    read_secret: ReadSecret
    name: str = "email"

    def send(self, message: Message) -> None:
        server = self._connect()
        try:
            self._prepare(server)
        except (OSError, smtplib.SMTPException) as error:
            server.close()
            raise NotSent(f"{self.host}: {error}") from error
        try:
            code, answer = server.data(bytes(self._mail(message)))
        finally:
            server.close()
        if code != 250:  # the server has refused it
            raise NotSent(f"{self.host}: {code} {answer.decode(errors='replace')}")

    def _connect(self) -> smtplib.SMTP:
        context = ssl.create_default_context()
        try:
            if self.security == "tls":
                return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
            return smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent(f"{self.host}:{self.port}: {error}") from error

    def _prepare(self, server: smtplib.SMTP) -> None:
        """Everything up to the message itself."""
        if self.security == "starttls":
            server.starttls(context=ssl.create_default_context())
        if self.user and self.security != "none":
            server.login(self.user, self.read_secret("smtp_password"))
        server.ehlo_or_helo_if_needed()
        code, answer = server.mail(self.sender)
        if code != 250:
            raise smtplib.SMTPSenderRefused(code, answer, self.sender)
        accepted = [each for each in self.recipients if server.rcpt(each)[0] in (250, 251)]
        if not accepted:
            raise smtplib.SMTPException("no recipient was accepted")

    def _mail(self, message: Message) -> EmailMessage:
        mail = EmailMessage()
        mail["Subject"] = message.subject.replace("\n", " ").replace("\r", " ")[:200]
        mail["From"], mail["To"] = self.sender, ", ".join(self.recipients)
        mail["Date"] = format_datetime(datetime.now(UTC))
        domain = self.sender.rpartition("@")[2] or "localhost"
        digest = hashlib.sha256(message.name.encode()).hexdigest()[:32]
        mail["Message-ID"] = f"<{digest}@{domain}>"  # the same for each attempt
        mail.set_content(message.text)
        return mail


@dataclass(frozen=True, slots=True)
class WebhookChannel:
    """A POST of JSON, signed like GitHub signs its webhooks."""

    url: str
    read_secret: ReadSecret
    name: str = "webhook"

    def send(self, message: Message) -> None:
        secret = self.read_secret("report_webhook_secret")
        if not secret:
            raise NotSent("The secret report_webhook_secret is not set. hutch config set-secret")
        body = json.dumps({"name": message.name, "subject": message.subject, **message.data}).encode()
        url = urlsplit(self.url)
        connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection = connect(str(url.hostname), url.port, timeout=TIMEOUT_S)
        try:
            connection.connect()
        except OSError as error:
            raise NotSent(f"{url.hostname}: {error}") from error
        try:
            target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
            connection.request("POST", target, body, _headers(message, body, secret))
            status = connection.getresponse().status
        except HTTPException as error:
            raise OSError(f"{url.hostname}: {type(error).__name__}") from error
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise NotSent(f"{url.hostname} answered {status}")


def _headers(message: Message, body: bytes, secret: str) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Hutch-Delivery": message.name,
        "X-Hutch-Signature-256": f"sha256={signature}",
    }


@dataclass(frozen=True, slots=True)
class DirectoryChannel:
    """A text file and a JSON file for each message."""

    directory: Path
    name: str = "directory"

    def send(self, message: Message) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for suffix, text in (("json", json.dumps(dict(message.data))), ("txt", message.text)):
                replace_file(self.directory / f"{message.name}.{suffix}", text, mode=0o600, durable=True)
        except OSError as error:  # written twice, it is the same file
            raise NotSent(str(error)) from error


def open_channels(settings: Mapping[str, Any], read_secret: ReadSecret) -> list[Channel]:
    """The channels that the settings of reports name."""
    channels: list[Channel] = []
    if settings["smtp_host"] and settings["email_to"]:
        server = (settings["smtp_host"], settings["smtp_port"], settings["smtp_security"])
        addresses = (settings["email_from"], tuple(settings["email_to"]))
        channels.append(EmailChannel(*server, settings["smtp_user"] or "", *addresses, read_secret))
    if settings["webhook_url"]:
        channels.append(WebhookChannel(settings["webhook_url"], read_secret))
    if settings["directory"]:
        channels.append(DirectoryChannel(Path(settings["directory"]).expanduser()))
    return channels
