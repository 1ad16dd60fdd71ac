// Package report summarizes an access log: its routes by use, with their failures and their slowest times.
package report

// A Route has the requests with one method and one kind of path.
type Route struct {
	Route  string `json:"route"`
	Count  int    `json:"count"`
	Errors int    `json:"errors"`
	P95Ms  int    `json:"p95_ms"`
}

// A Report has the routes, those with the most requests first.
type Report struct {
	Skipped int     `json:"skipped"`
	Routes  []Route `json:"routes"`
}

// Summarize reads the lines of a log.
func Summarize(lines []string) Report {
	panic("not written yet")
}
