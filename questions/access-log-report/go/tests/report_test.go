package report

import (
	"fmt"
	"reflect"
	"testing"
)

func TestTheExampleOfTheStatement(t *testing.T) {
	got := Summarize([]string{
		"2026-03-01T10:00:00Z GET /items/42 200 35",
		"2026-03-01T10:00:01Z GET /items/7?full=1 503 900",
		"oops",
	})
	want := Report{Skipped: 1, Routes: []Route{{Route: "GET /items/:id", Count: 2, Errors: 1, P95Ms: 900}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTheMostUsedRouteComesFirst(t *testing.T) {
	lines := []string{}
	for _, path := range []string{"/a", "/b", "/b", "/c"} {
		lines = append(lines, fmt.Sprintf("2026-03-01T10:00:00Z GET %s 200 5", path))
	}
	got := []string{}
	for _, route := range Summarize(lines).Routes {
		got = append(got, route.Route)
	}
	if want := []string{"GET /b", "GET /a", "GET /c"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestThePercentileOfTwentyValues(t *testing.T) {
	lines := []string{}
	for number := 1; number <= 20; number++ {
		lines = append(lines, fmt.Sprintf("2026-03-01T10:00:00Z GET /a 200 %d", number))
	}
	if got := Summarize(lines).Routes[0].P95Ms; got != 19 {
		t.Errorf("got %d, want 19", got)
	}
}
