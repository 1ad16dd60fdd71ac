// Package limiter limits how many requests a client may send in a sliding window of time.
package limiter

type RateLimiter struct {
	limit    int
	windowMs int64
	counted  map[string][]int64 // times by client, the oldest first
}

func NewRateLimiter(limit int, windowMs int64) *RateLimiter {
	return &RateLimiter{limit: limit, windowMs: windowMs, counted: map[string][]int64{}}
}

// Allow counts the request and returns true, or returns false if the client must wait.
func (r *RateLimiter) Allow(client string, nowMs int64) bool {
	if r.Remaining(client, nowMs) == 0 {
		return false
	}
	// append copies what is left when the array is full, so the dropped part is freed.
	r.counted[client] = append(r.counted[client], nowMs)
	return true
}

// Remaining is the number of requests that would be allowed at this moment.
func (r *RateLimiter) Remaining(client string, nowMs int64) int {
	times := r.counted[client]
	for len(times) > 0 && times[0]+r.windowMs <= nowMs {
		times = times[1:]
	}
	if len(times) == 0 {
		delete(r.counted, client)
	} else {
		r.counted[client] = times
	}
	return r.limit - len(times)
}
