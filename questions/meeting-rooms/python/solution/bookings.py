"""The times at which a meeting room is taken and free, in minutes of the day."""


def merge_bookings(bookings: list[list[int]]) -> list[list[int]]:
    """The times at which the room is taken, as few as possible, in order."""
    merged: list[list[int]] = []
    for start, end in sorted(bookings):
        if end < start:
            raise ValueError(f"a booking ends at {end}, before it begins at {start}")
        if start == end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def free_slots(bookings: list[list[int]], day_start: int, day_end: int, minutes: int) -> list[list[int]]:
    """The free times of the day that last at least so many minutes, in order."""
    slots = []
    free_from = day_start
    for start, end in [*merge_bookings(bookings), [day_end, day_end]]:
        free_to = min(start, day_end)
        if free_to > free_from and free_to - free_from >= minutes:
            slots.append([free_from, free_to])
        free_from = max(free_from, end)
    return slots
