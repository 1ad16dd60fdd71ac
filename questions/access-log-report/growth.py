"""Prints a case with so many lines; every fourth is of a new route."""

import json

count = int(input())


def word(number):
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


lines = [
    f"2026-03-01T10:00:00Z GET /{word(number // 4)}/{number} 200 {number % 97}" for number in range(count)
]
print(json.dumps({"name": "growth", "call": "summarize", "args": [lines]}))
