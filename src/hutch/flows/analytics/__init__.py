"""Use cases of the analytics: reports, live telemetry, budgets, alerts, digests."""
