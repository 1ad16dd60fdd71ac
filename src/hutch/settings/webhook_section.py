"""Settings of webhooks to other systems."""

from typing import Annotated

from pydantic import Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Networks, Section


class Webhooks(Section):
    """Webhooks to other systems, such as one that tracks applicants."""

    private_networks: Annotated[Networks, RepositoryAccess.NEVER] = Field(
        (),
        description="Networks that webhooks may reach although they are private, such as `10.1.2.0/24`. "
        "Only there, plain `http` is allowed too.",
    )
