"""The schedule of reports and alerts, from the settings."""

import hutch
from hutch.app.vault_secrets_and_redactor import secrets_of
from hutch.domain.redaction import Redactor
from hutch.flows.analytics.report_channels import open_channels
from hutch.flows.analytics.scheduled_reports_and_alerts import Schedule, ScheduledReports, describe_settings
from hutch.settings import LoadedSettings
from hutch.store.table_access_interface import Rows


def scheduled_reports(loaded: LoadedSettings, rows: Rows, redactor: Redactor) -> ScheduledReports:
    settings = loaded.settings.reports
    channels = open_channels(
        settings.model_dump(), lambda name: secrets_of(loaded, {name}).get(name, "").strip()
    )
    marks = (
        f"Hutch {hutch.__version__}",
        describe_settings(loaded.values, loaded.settings.model_dump_json()),
    )
    schedule = Schedule(settings.daily_at, settings.weekly_on, settings.alerts, channels, *marks)
    return ScheduledReports(rows, redactor, schedule)
