"""The times at which a meeting room is taken and free, in minutes of the day."""


def merge_bookings(bookings: list[list[int]]) -> list[list[int]]:
    """The times at which the room is taken, as few as possible, in order."""
    raise NotImplementedError


def free_slots(bookings: list[list[int]], day_start: int, day_end: int, minutes: int) -> list[list[int]]:
    """The free times of the day that last at least so many minutes, in order."""
    raise NotImplementedError
