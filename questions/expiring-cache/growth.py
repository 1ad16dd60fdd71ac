"""Prints a case that puts so many entries, four times as many as the cache holds."""

import json

count = int(input())
steps = [["put", [f"key{number}", "value", 1000000, number]] for number in range(count)]
print(json.dumps({"name": "growth", "create": "ExpiringCache", "args": [count // 4], "steps": steps}))
