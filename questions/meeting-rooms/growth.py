"""Prints a case with so many separate bookings, in no order."""

import json
import random

count = int(input())
bookings = [[10 * number, 10 * number + 5] for number in range(count)]
random.Random(count).shuffle(bookings)
print(json.dumps({"name": "growth", "call": "merge_bookings", "args": [bookings]}))
