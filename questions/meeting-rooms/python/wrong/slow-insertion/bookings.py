def merge_bookings(bookings):
    """Right, but compares each booking with all that were merged before."""
    merged = []
    for start, end in bookings:
        if end < start:
            raise ValueError("a booking ends before it begins")
        if start == end:
            continue
        apart = []
        for other in merged:
            if other[1] < start or end < other[0]:
                apart.append(other)
            else:
                start, end = min(start, other[0]), max(end, other[1])
        merged = [*apart, [start, end]]
    return sorted(merged)


def free_slots(bookings, day_start, day_end, minutes):
    slots = []
    free_from = day_start
    for start, end in [*merge_bookings(bookings), [day_end, day_end]]:
        free_to = min(start, day_end)
        if free_to > free_from and free_to - free_from >= minutes:
            slots.append([free_from, free_to])
        free_from = max(free_from, end)
    return slots
