package cache

import "testing"

func check(t *testing.T, cache *ExpiringCache, key string, nowMs int64, want string) {
	t.Helper()
	got := cache.Get(key, nowMs)
	if got == nil && want != "" {
		t.Errorf("Get(%q, %d) is nil, want %q", key, nowMs, want)
	}
	if got != nil && *got != want {
		t.Errorf("Get(%q, %d) = %q, want %q", key, nowMs, *got, want)
	}
}

func TestAValueIsStored(t *testing.T) {
	cache := NewExpiringCache(2)
	cache.Put("a", "1", 1000, 0)
	check(t, cache, "a", 10, "1")
	check(t, cache, "b", 10, "")
}

func TestAValueExpires(t *testing.T) {
	cache := NewExpiringCache(2)
	cache.Put("a", "1", 1000, 0)
	check(t, cache, "a", 999, "1")
	check(t, cache, "a", 2000, "")
}

func TestAFullCacheRemovesAnEntry(t *testing.T) {
	cache := NewExpiringCache(2)
	for nowMs, key := range []string{"a", "b", "c"} {
		cache.Put(key, key, 1000, int64(nowMs))
	}
	if got := cache.Size(3); got != 2 {
		t.Errorf("Size(3) = %d, want 2", got)
	}
	check(t, cache, "a", 3, "")
}

func TestReport311AReadCountsAsUse(t *testing.T) {
	cache := NewExpiringCache(2)
	cache.Put("busy", "1", 1000, 0)
	cache.Put("idle", "2", 1000, 1)
	cache.Get("busy", 2)
	cache.Put("new", "3", 1000, 3)
	check(t, cache, "busy", 4, "1")
}
