// Package report summarizes an access log: its routes by use, with their failures and their slowest times.
package report

import (
	"sort"
	"strings"
)

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
	report := Report{Routes: []Route{}}
	groups := map[string][]Request{}
	for _, line := range lines {
		request, ok := ParseLine(line)
		if ok {
			name := routeOf(request)
			groups[name] = append(groups[name], request)
		} else if strings.TrimSpace(line) != "" {
			report.Skipped++
		}
	}
	for name, requests := range groups {
		report.Routes = append(report.Routes, summaryOf(name, requests))
	}
	sort.Slice(report.Routes, func(i, j int) bool {
		one, other := report.Routes[i], report.Routes[j]
		if one.Count != other.Count {
			return one.Count > other.Count
		}
		return one.Route < other.Route
	})
	return report
}

func summaryOf(name string, requests []Request) Route {
	errors, times := 0, []int{}
	for _, request := range requests {
		times = append(times, request.DurationMs)
		if request.Status >= 500 {
			errors++
		}
	}
	sort.Ints(times)
	rank := (95*len(times) + 99) / 100 // ceil(0.95 * count)
	return Route{Route: name, Count: len(requests), Errors: errors, P95Ms: times[rank-1]}
}

func routeOf(request Request) string {
	path, _, _ := strings.Cut(request.Path, "?")
	parts := strings.Split(path, "/")
	for at, part := range parts {
		if part != "" && strings.Trim(part, "0123456789") == "" {
			parts[at] = ":id"
		}
	}
	return request.Method + " " + strings.Join(parts, "/")
}
