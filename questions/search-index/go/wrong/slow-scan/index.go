package index

import "sort"

// SearchIndex is right, but looks at every note for each search.
type SearchIndex struct {
	texts map[string]string
}

func NewSearchIndex() *SearchIndex {
	return &SearchIndex{map[string]string{}}
}

func (s *SearchIndex) Add(id, text string) {
	s.texts[id] = text
}

func (s *SearchIndex) Remove(id string) bool {
	_, known := s.texts[id]
	delete(s.texts, id)
	return known
}

func (s *SearchIndex) Search(query string) []string {
	wanted := map[string]bool{}
	for _, word := range Words(query) {
		wanted[word] = true
	}
	ids, counts := []string{}, map[string]int{}
	for id, text := range s.texts {
		seen := map[string]bool{}
		for _, word := range Words(text) {
			if wanted[word] {
				seen[word] = true
				counts[id]++
			}
		}
		if len(wanted) > 0 && len(seen) == len(wanted) {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool {
		if counts[ids[i]] != counts[ids[j]] {
			return counts[ids[i]] > counts[ids[j]]
		}
		return ids[i] < ids[j]
	})
	return ids
}
