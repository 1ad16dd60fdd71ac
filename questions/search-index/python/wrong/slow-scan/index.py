"""Right, but looks at every note for each search."""

from tokenizer import words


class SearchIndex:
    def __init__(self):
        self.texts = {}

    def add(self, id, text):
        self.texts[id] = text

    def remove(self, id):
        return self.texts.pop(id, None) is not None

    def search(self, query):
        wanted = set(words(query))
        found = []
        for id, text in self.texts.items():
            own = words(text)
            if wanted and wanted <= set(own):
                found.append((-sum(word in wanted for word in own), id))
        return [id for _, id in sorted(found)]
