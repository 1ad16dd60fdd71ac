package cache

// An entry is a value and what is known about it.
type entry struct {
	key       string
	value     string
	expiresMs int64
	used      int // the number of the use, higher is later
}

// entries knows which of them was used least recently.
type entries struct {
	byKey map[string]*entry
	uses  int
}

func (e *entries) nextUse() int {
	e.uses++
	return e.uses
}

func (e *entries) add(key, value string, expiresMs int64) {
	e.byKey[key] = &entry{key, value, expiresMs, e.nextUse()}
}

// removeOldest removes the entry that was used least recently.
func (e *entries) removeOldest() {
	var oldest *entry
	for _, each := range e.byKey {
		if oldest == nil || each.used < oldest.used {
			oldest = each
		}
	}
	if oldest != nil {
		delete(e.byKey, oldest.key)
	}
}
