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

// Summarize is right, but goes through all requests again for each route.
func Summarize(lines []string) Report {
	report := Report{Routes: []Route{}}
	names, requests := []string{}, []Request{}
	for _, line := range lines {
		request, ok := ParseLine(line)
		if ok {
			names, requests = append(names, routeOf(request)), append(requests, request)
		} else if strings.TrimSpace(line) != "" {
			report.Skipped++
		}
	}
	for _, name := range names {
		if !has(report.Routes, name) {
			report.Routes = append(report.Routes, summaryOf(name, names, requests))
		}
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

func has(routes []Route, name string) bool {
	for _, each := range routes {
		if each.Route == name {
			return true
		}
	}
	return false
}

func summaryOf(name string, names []string, requests []Request) Route {
	route, times := Route{Route: name}, []int{}
	for at, request := range requests {
		if names[at] != name {
			continue
		}
		times = append(times, request.DurationMs)
		route.Count++
		if request.Status >= 500 {
			route.Errors++
		}
	}
	sort.Ints(times)
	route.P95Ms = times[(95*len(times)+99)/100-1]
	return route
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
