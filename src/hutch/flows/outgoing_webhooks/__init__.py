"""Webhooks to other systems: managed, signed, sent, retried."""
