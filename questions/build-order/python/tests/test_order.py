import unittest

from order import build_order, build_waves

BUILD = {"app": ["lib", "assets"], "lib": [], "assets": ["lib"], "docs": []}


class BuildOrderTest(unittest.TestCase):
    def test_the_example_of_the_statement(self):
        self.assertEqual(build_order(BUILD), ["docs", "lib", "assets", "app"])

    def test_a_circle_is_an_error(self):
        with self.assertRaises(Exception):
            build_order({"a": ["b"], "b": ["a"]})

    def test_an_unknown_need_is_an_error(self):
        with self.assertRaises(Exception):
            build_order({"a": ["b"]})


class BuildWavesTest(unittest.TestCase):
    def test_the_example_of_the_statement(self):
        self.assertEqual(build_waves(BUILD), [["docs", "lib"], ["assets"], ["app"]])


if __name__ == "__main__":
    unittest.main()
