"""Output without a reader blocks no writer, and missing lines are counted."""

import logging
import os
import threading

from hutch.system.queued_standard_output import MAX_QUEUED_CHARS, QueuedOutput

LINE = "x" * 1023 + "\n"


def read_all(reading: int) -> str:
    with os.fdopen(reading) as pipe:
        return pipe.read()


def test_lines_come_in_order() -> None:
    reading, writing = os.pipe()
    output = QueuedOutput(writing)
    for number in range(1000):
        output.write(f"{number}\n")
    output.drain()
    os.close(writing)
    assert read_all(reading) == "".join(f"{number}\n" for number in range(1000))


def test_dropped_lines_are_counted_at_their_position() -> None:
    reading, writing = os.pipe()
    output = QueuedOutput(writing)
    count = 2 * MAX_QUEUED_CHARS // len(LINE)
    for _ in range(count):
        output.write(LINE)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(read_all(reading)))
    reader.start()
    while output.is_dropping:
        output.drain()
    output.write("later\n")
    output.drain()
    os.close(writing)
    reader.join()
    lines = read[0].splitlines()
    written = lines.count(LINE.strip())
    assert 0 < written < count
    assert lines[written:] == [
        f"hutch: {count - written} lines are missing here, because the reader stopped.",
        "later",
    ]


def test_missing_lines_of_a_log_are_named_as_one_of_its_lines() -> None:
    reading, writing = os.pipe()
    output = QueuedOutput(writing)
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(count)d"))
    logging.getLogger().addHandler(handler)
    try:
        for _ in range(2 * MAX_QUEUED_CHARS // len(LINE)):
            output.write(LINE)
        read: list[str] = []
        reader = threading.Thread(target=lambda: read.append(read_all(reading)))
        reader.start()
        while output.is_dropping:
            output.drain()
        output.drain()
    finally:
        logging.getLogger().removeHandler(handler)
    os.close(writing)
    reader.join()
    written = read[0].count(LINE)
    missing = 2 * MAX_QUEUED_CHARS // len(LINE) - written
    assert read[0].removeprefix(LINE * written) == f"WARNING output.lines_missing {missing}\n"


def test_a_closed_reader_does_not_block() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    output = QueuedOutput(writing)
    for _ in range(2 * MAX_QUEUED_CHARS // len(LINE)):
        output.write(LINE)
        output.drain()
    os.close(writing)


def test_one_line_that_is_too_long_is_named_and_the_next_ones_come() -> None:
    reading, writing = os.pipe()
    output = QueuedOutput(writing)
    output.write("x" * (MAX_QUEUED_CHARS + 1) + "\n")
    while output.is_dropping:
        output.drain()
    output.write("later\n")
    output.drain()
    os.close(writing)
    assert read_all(reading) == "hutch: 1 lines are missing here, because the reader stopped.\nlater\n"
