"""Streams: live events, terminals, and previews of pages that are served in a jail."""
