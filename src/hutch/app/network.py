"""Which hosts the sessions of members may reach, as the settings have it."""

from hutch.flows.network_cap import NetworkCap, parse_network_cap
from hutch.settings import Settings


def network_cap(settings: Settings) -> NetworkCap:
    return parse_network_cap(settings.server.network_allowed, settings.jail.network)
