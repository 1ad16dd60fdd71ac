package limiter

// RateLimiter is right, but each request looks at all requests of the window.
type RateLimiter struct {
	limit    int
	windowMs int64
	times    map[string][]int64
}

func NewRateLimiter(limit int, windowMs int64) *RateLimiter {
	return &RateLimiter{limit: limit, windowMs: windowMs, times: map[string][]int64{}}
}

func (r *RateLimiter) Allow(client string, nowMs int64) bool {
	if r.Remaining(client, nowMs) <= 0 {
		return false
	}
	r.times[client] = append(r.times[client], nowMs)
	return true
}

func (r *RateLimiter) Remaining(client string, nowMs int64) int {
	kept := []int64{}
	for _, each := range r.times[client] {
		if each+r.windowMs > nowMs {
			kept = append(kept, each)
		}
	}
	r.times[client] = kept
	return r.limit - len(kept)
}
