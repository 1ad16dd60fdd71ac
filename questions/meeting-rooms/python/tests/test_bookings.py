import unittest

from bookings import free_slots, merge_bookings


class MergeBookingsTest(unittest.TestCase):
    def test_overlapping_and_touching_bookings_become_one(self):
        merged = merge_bookings([[540, 600], [570, 630], [700, 720], [630, 640]])
        self.assertEqual(merged, [[540, 640], [700, 720]])

    def test_the_given_list_is_not_changed(self):
        bookings = [[20, 30], [10, 25]]
        merge_bookings(bookings)
        self.assertEqual(bookings, [[20, 30], [10, 25]])

    def test_a_booking_cannot_end_before_it_begins(self):
        with self.assertRaises(Exception):
            merge_bookings([[20, 10]])


class FreeSlotsTest(unittest.TestCase):
    def test_the_gaps_that_are_long_enough(self):
        slots = free_slots([[540, 600], [630, 720]], 480, 780, 60)
        self.assertEqual(slots, [[480, 540], [720, 780]])


if __name__ == "__main__":
    unittest.main()
