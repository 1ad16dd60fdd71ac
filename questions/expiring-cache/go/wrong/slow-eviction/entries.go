package cache

type entry struct {
	key       string
	value     string
	expiresMs int64
	used      int
}

// entries is right, but goes through all of them to find the oldest.
type entries struct {
	byKey map[string]*entry
	uses  int
}

func newEntries() *entries {
	return &entries{byKey: map[string]*entry{}}
}

func (e *entries) find(key string) *entry {
	return e.byKey[key]
}

func (e *entries) use(key string) {
	e.uses++
	e.byKey[key].used = e.uses
}

func (e *entries) add(key, value string, expiresMs int64) {
	e.byKey[key] = &entry{key: key, value: value, expiresMs: expiresMs}
	e.use(key)
}

func (e *entries) remove(key string) {
	delete(e.byKey, key)
}

func (e *entries) removeOldest() {
	var oldest *entry
	for _, each := range e.byKey {
		if oldest == nil || each.used < oldest.used {
			oldest = each
		}
	}
	delete(e.byKey, oldest.key)
}
