"""Builds the inputs of the checks of `hutch doctor` from the settings."""

from functools import partial

from hutch.app import models, vault_secrets_and_redactor
from hutch.app.allowed_local_repositories import own_directories
from hutch.app.forges import tokens_of
from hutch.app.jails import jail_policy
from hutch.flows.doctor_checks.model_availability import check_model
from hutch.flows.doctor_checks.repository_delivery_and_tests import Installation
from hutch.jail.machine_checks import Check
from hutch.settings import LoadedSettings, user_environment


def installation(loaded: LoadedSettings) -> Installation:
    return Installation(
        own=own_directories(loaded.paths),
        policy=jail_policy(loaded.settings),
        tokens=tokens_of(loaded),
        read_redactor=partial(vault_secrets_and_redactor.redactor, loaded),
        test_command=lambda config: loaded.with_repository(config).settings.tests.command,
    )


async def check_own_model(loaded: LoadedSettings) -> Check:
    environment = user_environment()
    return await check_model(partial(models.access, loaded, environment), loaded.settings.model, environment)
