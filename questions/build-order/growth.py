"""Prints a case with so many tasks: each needs the one before it and one in the middle."""

import json

count = int(input())
tasks = {f"t{number:06}": [f"t{number - 1:06}", f"t{number // 2:06}"] for number in range(1, count)}
tasks["t000000"] = []
names = sorted(tasks, key=lambda name: name[::-1])
print(json.dumps({"name": "growth", "call": "build_order", "args": [{name: tasks[name] for name in names}]}))
