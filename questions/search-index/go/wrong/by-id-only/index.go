// Package index is a search index for notes, in memory.
package index

import "sort"

type SearchIndex struct {
	wordsOf map[string]map[string]int  // by note: its words and their numbers
	notesOf map[string]map[string]bool // by word: the notes with it
}

func NewSearchIndex() *SearchIndex {
	return &SearchIndex{map[string]map[string]int{}, map[string]map[string]bool{}}
}

// Add adds a note, or replaces the one with this id.
func (s *SearchIndex) Add(id, text string) {
	s.Remove(id)
	counts := map[string]int{}
	for _, word := range Words(text) {
		counts[word]++
		if s.notesOf[word] == nil {
			s.notesOf[word] = map[string]bool{}
		}
		s.notesOf[word][id] = true
	}
	s.wordsOf[id] = counts
}

// Remove removes a note; it returns true if there was one.
func (s *SearchIndex) Remove(id string) bool {
	counts, known := s.wordsOf[id]
	for word := range counts {
		delete(s.notesOf[word], id)
		if len(s.notesOf[word]) == 0 {
			delete(s.notesOf, word)
		}
	}
	delete(s.wordsOf, id)
	return known
}

type match struct {
	id    string
	count int
}

// Search sorts by id only.
func (s *SearchIndex) Search(query string) []string {
	wanted := map[string]bool{}
	for _, word := range Words(query) {
		wanted[word] = true
	}
	found := []match{}
	rarest, isFirst := map[string]bool{}, true
	for word := range wanted {
		if isFirst || len(s.notesOf[word]) < len(rarest) {
			rarest, isFirst = s.notesOf[word], false
		}
	}
	for id := range rarest {
		if count, all := s.count(id, wanted); all {
			found = append(found, match{id, count})
		}
	}
	sort.Slice(found, func(i, j int) bool {
		return found[i].id < found[j].id
	})
	ids := []string{}
	for _, each := range found {
		ids = append(ids, each.id)
	}
	return ids
}

// count adds up the occurrences of the words in a note, and returns false if one does not occur.
func (s *SearchIndex) count(id string, wanted map[string]bool) (int, bool) {
	sum := 0
	for word := range wanted {
		if s.wordsOf[id][word] == 0 {
			return 0, false
		}
		sum += s.wordsOf[id][word]
	}
	return sum, true
}
