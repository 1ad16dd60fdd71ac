"""Prints a case with so many notes, and as many searches for words that are in one note each."""

import json

count = int(input())
text = "the quick brown fox jumps over the lazy dog and reads note"
steps = [["add", [f"n{number}", f"{text} w{number}"]] for number in range(count)]
steps += [["search", [f"w{number}"]] for number in range(count)]
print(json.dumps({"name": "growth", "create": "SearchIndex", "steps": steps}))
