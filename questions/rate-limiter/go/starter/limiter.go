// Package limiter limits how many requests a client may send in a sliding window of time.
package limiter

type RateLimiter struct {
	limit    int
	windowMs int64
}

func NewRateLimiter(limit int, windowMs int64) *RateLimiter {
	return &RateLimiter{limit: limit, windowMs: windowMs}
}

// Allow counts the request and returns true, or returns false if the client must wait.
func (r *RateLimiter) Allow(client string, nowMs int64) bool {
	panic("not written yet")
}

// Remaining is the number of requests that would be allowed at this moment.
func (r *RateLimiter) Remaining(client string, nowMs int64) int {
	panic("not written yet")
}
