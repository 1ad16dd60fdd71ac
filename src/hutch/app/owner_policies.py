"""The policies of owners, from the settings and the database."""

from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.policies.policy import parse_entries
from hutch.settings import LoadedSettings
from hutch.store.table_access_interface import Rows


def policies_of(loaded: LoadedSettings, rows: Rows) -> Policies:
    settings = loaded.settings
    tables = [each.model_dump(exclude_unset=True) for each in settings.policy]
    return Policies(
        rows, parse_entries(tables, loaded.origins["policy"], settings.categories), settings.categories
    )
