"""Prints a case in which one client sends so many requests, half of which fit into the window."""

import json

count = int(input())
steps = [["allow", ["ann", number]] for number in range(count)]
print(json.dumps({"name": "growth", "create": "RateLimiter", "args": [count, count], "steps": steps}))
