import unittest

from report import summarize


class SummarizeTest(unittest.TestCase):
    def test_the_example_of_the_statement(self):
        found = summarize(
            [
                "2026-03-01T10:00:00Z GET /items/42 200 35",
                "2026-03-01T10:00:01Z GET /items/7?full=1 503 900",
                "oops",
            ]
        )
        route = {"route": "GET /items/:id", "count": 2, "errors": 1, "p95_ms": 900}
        self.assertEqual(found, {"skipped": 1, "routes": [route]})

    def test_the_most_used_route_comes_first(self):
        paths = ["/a", "/b", "/b", "/c"]
        found = summarize([f"2026-03-01T10:00:00Z GET {path} 200 5" for path in paths])
        self.assertEqual([route["route"] for route in found["routes"]], ["GET /b", "GET /a", "GET /c"])

    def test_the_percentile_of_twenty_values(self):
        found = summarize([f"2026-03-01T10:00:00Z GET /a 200 {number}" for number in range(1, 21)])
        self.assertEqual(found["routes"][0]["p95_ms"], 19)

    def test_an_empty_log(self):
        self.assertEqual(summarize([]), {"skipped": 0, "routes": []})


if __name__ == "__main__":
    unittest.main()
