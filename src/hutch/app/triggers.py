"""Who sees to it that what people ask on a forge is done."""

from hutch.app import forges
from hutch.app.models import secrets_of
from hutch.flows.site import Site
from hutch.flows.triggers import Manners, Triggers
from hutch.forge.gh import GITHUB
from hutch.forge.seam import Forge
from hutch.settings import Loaded

SECRET = "github_webhook_secret"


def triggers_of(loaded: Loaded, site: Site) -> Triggers:
    def open_forge(repository: str, user: str) -> Forge:
        return forges.need_forge(loaded, repository, user=user)

    manners = Manners(
        run_as=loaded.settings.github.run_as or "", public_url=loaded.settings.server.public_url or ""
    )
    return Triggers(site, open_forge, manners)


def webhook_secret(loaded: Loaded) -> str:
    """What GitHub signs its webhooks with; empty when nobody has set it."""
    return secrets_of(loaded, {SECRET}).get(SECRET, "").strip()


def hosts_of(loaded: Loaded) -> tuple[str, ...]:
    """Where repositories may be that it tells of."""
    return (GITHUB, *loaded.settings.github.hosts)
