"""Right, but goes through all requests again for each route."""

from log_line import parse_line


def route_of(request):
    parts = request.path.partition("?")[0].split("/")
    return f"{request.method} {'/'.join(':id' if part.isdigit() else part for part in parts)}"


def summarize(lines):
    given = [line for line in lines if line.strip()]
    requests = [request for request in map(parse_line, given) if request is not None]
    named = [(route_of(request), request) for request in requests]
    routes = []
    for route in {name for name, _ in named}:
        own = [request for name, request in named if name == route]
        times = sorted(request.duration_ms for request in own)
        errors = len([request for request in own if request.status >= 500])
        p95_ms = times[(95 * len(own) + 99) // 100 - 1]
        routes.append({"route": route, "count": len(own), "errors": errors, "p95_ms": p95_ms})
    routes.sort(key=lambda each: (-each["count"], each["route"]))
    return {"skipped": len(given) - len(requests), "routes": routes}
