package report

import (
	"strconv"
	"strings"
)

// A Request is one line of the access log.
type Request struct {
	Time       string
	Method     string
	Path       string // with its query
	Status     int
	DurationMs int
}

// ParseLine reads one line; it returns false if the line is not a request.
func ParseLine(line string) (Request, bool) {
	parts := strings.Fields(line)
	if len(parts) != 5 || !strings.HasPrefix(parts[2], "/") {
		return Request{}, false
	}
	status, err := strconv.ParseUint(parts[3], 10, 16)
	if err != nil {
		return Request{}, false
	}
	duration, err := strconv.ParseUint(parts[4], 10, 32)
	if err != nil {
		return Request{}, false
	}
	return Request{parts[0], parts[1], parts[2], int(status), int(duration)}, true
}
