"""Egress from a jail: an HTTP proxy with a list of allowed hosts."""

from hutch.jail.egress.allow_list import AllowList, parse_allow_list
from hutch.jail.egress.egress_attempt_and_limit_types import EgressAttempt, EgressLimits
from hutch.jail.egress.host_check_and_connection import Admit, Resolve, check_reachable
from hutch.jail.egress.proxy_server import Egress, environment, serve_egress

__all__ = [
    "Admit",
    "AllowList",
    "Egress",
    "EgressAttempt",
    "EgressLimits",
    "Resolve",
    "check_reachable",
    "environment",
    "parse_allow_list",
    "serve_egress",
]
