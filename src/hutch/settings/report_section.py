"""Settings of scheduled reports and alerts."""

from typing import Annotated, Literal

from pydantic import Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Address, Count, Section, Texts

Never = RepositoryAccess.NEVER


class Reports(Section):
    """Daily and weekly reports of a server, and alerts: where they are sent, and when."""

    daily_at: Annotated[str | None, Never] = Field(
        None,
        pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="When the report of the day before is sent, in UTC: `07:00`. When not set, none is sent.",
    )
    weekly_on: Annotated[
        Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] | None, Never
    ] = Field(
        None,
        description="The day on which the report of the seven days before is sent, at `reports.daily_at`, or "
        "at 07:00.",
    )
    alerts: Annotated[bool, Never] = Field(
        True, description="Whether alerts are sent as they arise. They are always listed."
    )
    email_to: Annotated[Texts, Never] = Field(
        default=(), description="The e-mail addresses that get reports and alerts."
    )
    email_from: Annotated[str, Never] = Field("hutch@localhost", description="The sender of these e-mails.")
    smtp_host: Annotated[str | None, Never] = Field(
        None, description="The SMTP server. Without it, no e-mail is sent."
    )
    smtp_port: Annotated[Count, Never] = Field(25, ge=1, le=65_535, description="Its port.")
    smtp_security: Annotated[Literal["none", "starttls", "tls"], Never] = Field(
        "starttls",
        description="How the connection is encrypted. `none` also refuses to log in.",
    )
    smtp_user: Annotated[str | None, Never] = Field(
        None, description="The user name at the SMTP server. The password is the secret `smtp_password`."
    )
    webhook_url: Annotated[Address | None, Never] = Field(
        None,
        description="An address that gets reports and alerts as JSON, signed with the secret "
        "`report_webhook_secret`.",
    )
    directory: Annotated[str | None, Never] = Field(
        None, description="A directory in which each report and alert becomes a file."
    )
