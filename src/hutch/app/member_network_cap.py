"""The hosts that members' sessions may reach, from the settings."""

from hutch.flows.member_network_cap import NetworkCap, parse_network_cap
from hutch.settings import Settings


def network_cap(settings: Settings) -> NetworkCap:
    return parse_network_cap(settings.server.network_allowed, settings.jail.network)
