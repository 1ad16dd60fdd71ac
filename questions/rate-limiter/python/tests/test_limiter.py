import unittest

from limiter import RateLimiter


class RateLimiterTest(unittest.TestCase):
    def test_the_example_of_the_statement(self):
        limiter = RateLimiter(2, 1000)
        self.assertTrue(limiter.allow("ann", 0))
        self.assertTrue(limiter.allow("ann", 400))
        self.assertFalse(limiter.allow("ann", 999))
        self.assertTrue(limiter.allow("ann", 1000))
        self.assertEqual(limiter.remaining("ann", 1000), 0)
        self.assertTrue(limiter.allow("bob", 1000))

    def test_an_unknown_client_has_its_whole_limit(self):
        self.assertEqual(RateLimiter(5, 1000).remaining("carol", 0), 5)

    def test_a_refused_request_does_not_count(self):
        limiter = RateLimiter(1, 100)
        self.assertTrue(limiter.allow("ann", 0))
        self.assertFalse(limiter.allow("ann", 60))
        self.assertTrue(limiter.allow("ann", 100))


if __name__ == "__main__":
    unittest.main()
