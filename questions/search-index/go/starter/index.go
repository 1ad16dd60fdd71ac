// Package index is a search index for notes, in memory.
package index

type SearchIndex struct {
}

func NewSearchIndex() *SearchIndex {
	return &SearchIndex{}
}

// Add adds a note, or replaces the one with this id.
func (s *SearchIndex) Add(id, text string) {
	panic("not written yet")
}

// Remove removes a note; it returns true if there was one.
func (s *SearchIndex) Remove(id string) bool {
	panic("not written yet")
}

// Search returns the ids of the notes that contain every word of the query, the best first.
func (s *SearchIndex) Search(query string) []string {
	panic("not written yet")
}
