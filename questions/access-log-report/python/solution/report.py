"""A report of an access log: its routes by use, with their failures and their slowest times."""

from log_line import parse_line


def route_of(method, path):
    """The method and path, without identifiers and without the query."""
    parts = path.partition("?")[0].split("/")
    return f"{method} {'/'.join(':id' if part.isdigit() else part for part in parts)}"


def percentile_95(values):
    """The value at the nearest rank: ceil(0.95 * count), in whole numbers."""
    rank = (95 * len(values) + 99) // 100
    return sorted(values)[rank - 1]


def summarize(lines):
    skipped = 0
    groups = {}
    for line in lines:
        request = parse_line(line)
        if request is None:
            skipped += 1 if line.strip() else 0
            continue
        groups.setdefault(route_of(request.method, request.path), []).append(request)
    routes = [
        {
            "route": route,
            "count": len(requests),
            "errors": sum(request.status >= 500 for request in requests),
            "p95_ms": percentile_95([request.duration_ms for request in requests]),
        }
        for route, requests in groups.items()
    ]
    routes.sort(key=lambda each: (-each["count"], each["route"]))
    return {"skipped": skipped, "routes": routes}
