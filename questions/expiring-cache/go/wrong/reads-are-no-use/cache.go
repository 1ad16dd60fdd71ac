// Package cache has a cache with a limited number of values, each for a limited time.
package cache

type ExpiringCache struct {
	capacity int
	entries  *entries
}

func NewExpiringCache(capacity int) *ExpiringCache {
	return &ExpiringCache{capacity, newEntries()}
}

// Put stores a value until nowMs + ttlMs.
func (c *ExpiringCache) Put(key, value string, ttlMs, nowMs int64) {
	if found := c.entries.find(key); found != nil {
		found.value, found.expiresMs = value, nowMs+ttlMs
		c.entries.use(key)
		return
	}
	if len(c.entries.byKey) >= c.capacity {
		c.entries.removeOldest()
	}
	c.entries.add(key, value, nowMs+ttlMs)
}

// Get returns the value, or nil if there is none or it has expired.
func (c *ExpiringCache) Get(key string, nowMs int64) *string {
	found := c.entries.find(key)
	if found == nil {
		return nil
	}
	if nowMs >= found.expiresMs {
		c.entries.remove(key)
		return nil
	}
	return &found.value
}

// Size is the number of values that have not expired.
func (c *ExpiringCache) Size(nowMs int64) int {
	count := 0
	for key := range c.entries.byKey {
		if nowMs < c.entries.find(key).expiresMs {
			count++
		}
	}
	return count
}
