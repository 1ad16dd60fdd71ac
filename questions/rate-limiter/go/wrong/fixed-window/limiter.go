package limiter

type period struct {
	client string
	number int64
}

// RateLimiter counts in fixed periods, which begin anew at multiples of the window.
type RateLimiter struct {
	limit    int
	windowMs int64
	counts   map[period]int
}

func NewRateLimiter(limit int, windowMs int64) *RateLimiter {
	return &RateLimiter{limit: limit, windowMs: windowMs, counts: map[period]int{}}
}

func (r *RateLimiter) Allow(client string, nowMs int64) bool {
	if r.Remaining(client, nowMs) <= 0 {
		return false
	}
	r.counts[period{client, nowMs / r.windowMs}]++
	return true
}

func (r *RateLimiter) Remaining(client string, nowMs int64) int {
	return r.limit - r.counts[period{client, nowMs / r.windowMs}]
}
