package index

import (
	"fmt"
	"testing"
)

func example() *SearchIndex {
	index := NewSearchIndex()
	index.Add("n1", "Buy milk, eggs and more milk")
	index.Add("n2", "The milk is in the fridge")
	index.Add("n3", "Eggs: where? In the fridge!")
	return index
}

func check(t *testing.T, index *SearchIndex, query, want string) {
	t.Helper()
	if got := fmt.Sprint(index.Search(query)); got != want {
		t.Errorf("Search(%q) = %s, want %s", query, got, want)
	}
}

func TestTheExamplesOfTheStatement(t *testing.T) {
	check(t, example(), "milk", "[n1 n2]")
	check(t, example(), "FRIDGE the", "[n2 n3]")
	check(t, example(), "eggs milk", "[n1]")
	check(t, example(), "cheese", "[]")
}

func TestAQueryWithoutWordsFindsNothing(t *testing.T) {
	check(t, example(), "?!", "[]")
}

func TestANoteIsRemoved(t *testing.T) {
	index := example()
	if !index.Remove("n1") || index.Remove("n1") {
		t.Error("Remove should return true once")
	}
	check(t, index, "milk", "[n2]")
}
