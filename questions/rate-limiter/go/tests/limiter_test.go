package limiter

import "testing"

func TestTheExampleOfTheStatement(t *testing.T) {
	limiter := NewRateLimiter(2, 1000)
	steps := []struct {
		client string
		nowMs  int64
		want   bool
	}{{"ann", 0, true}, {"ann", 400, true}, {"ann", 999, false}, {"ann", 1000, true}, {"bob", 1000, true}}
	for _, step := range steps {
		if got := limiter.Allow(step.client, step.nowMs); got != step.want {
			t.Errorf("Allow(%q, %d) = %v, want %v", step.client, step.nowMs, got, step.want)
		}
	}
	if got := limiter.Remaining("ann", 1000); got != 0 {
		t.Errorf("Remaining(\"ann\", 1000) = %d, want 0", got)
	}
}

func TestAnUnknownClientHasItsWholeLimit(t *testing.T) {
	if got := NewRateLimiter(5, 1000).Remaining("carol", 0); got != 5 {
		t.Errorf("Remaining = %d, want 5", got)
	}
}

func TestARefusedRequestDoesNotCount(t *testing.T) {
	limiter := NewRateLimiter(1, 100)
	if !limiter.Allow("ann", 0) || limiter.Allow("ann", 60) || !limiter.Allow("ann", 100) {
		t.Error("want true, false, true at 0, 60, 100")
	}
}
