import unittest

from cache import ExpiringCache


class ExpiringCacheTest(unittest.TestCase):
    def test_a_value_is_stored(self):
        cache = ExpiringCache(2)
        cache.put("a", "1", 1000, 0)
        self.assertEqual(cache.get("a", 10), "1")
        self.assertIsNone(cache.get("b", 10))

    def test_a_value_expires(self):
        cache = ExpiringCache(2)
        cache.put("a", "1", 1000, 0)
        self.assertEqual(cache.get("a", 999), "1")
        self.assertIsNone(cache.get("a", 2000))

    def test_a_full_cache_removes_an_entry(self):
        cache = ExpiringCache(2)
        for now_ms, key in enumerate(["a", "b", "c"]):
            cache.put(key, key, 1000, now_ms)
        self.assertEqual(cache.size(3), 2)
        self.assertIsNone(cache.get("a", 3))

    def test_report_311_a_read_counts_as_use(self):
        cache = ExpiringCache(2)
        cache.put("busy", "1", 1000, 0)
        cache.put("idle", "2", 1000, 1)
        cache.get("busy", 2)
        cache.put("new", "3", 1000, 3)
        self.assertEqual(cache.get("busy", 4), "1")


if __name__ == "__main__":
    unittest.main()
