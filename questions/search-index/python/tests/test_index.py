import unittest

from index import SearchIndex


def example():
    index = SearchIndex()
    index.add("n1", "Buy milk, eggs and more milk")
    index.add("n2", "The milk is in the fridge")
    index.add("n3", "Eggs: where? In the fridge!")
    return index


class SearchIndexTest(unittest.TestCase):
    def test_the_examples_of_the_statement(self):
        index = example()
        self.assertEqual(index.search("milk"), ["n1", "n2"])
        self.assertEqual(index.search("FRIDGE the"), ["n2", "n3"])
        self.assertEqual(index.search("eggs milk"), ["n1"])
        self.assertEqual(index.search("cheese"), [])

    def test_a_query_without_words_finds_nothing(self):
        self.assertEqual(example().search("?!"), [])

    def test_a_note_is_removed(self):
        index = example()
        self.assertTrue(index.remove("n1"))
        self.assertFalse(index.remove("n1"))
        self.assertEqual(index.search("milk"), ["n2"])


if __name__ == "__main__":
    unittest.main()
