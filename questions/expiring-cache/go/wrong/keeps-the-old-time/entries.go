package cache

import "container/list"

// An entry is a value and what is known about it.
type entry struct {
	key       string
	value     string
	expiresMs int64
}

// entries has its elements in the order of their use, the least recent first.
type entries struct {
	byKey map[string]*list.Element
	order *list.List
}

func newEntries() *entries {
	return &entries{map[string]*list.Element{}, list.New()}
}

func (e *entries) find(key string) *entry {
	if element := e.byKey[key]; element != nil {
		return element.Value.(*entry)
	}
	return nil
}

func (e *entries) use(key string) {
	e.order.MoveToBack(e.byKey[key])
}

func (e *entries) add(key, value string, expiresMs int64) {
	e.byKey[key] = e.order.PushBack(&entry{key, value, expiresMs})
}

func (e *entries) remove(key string) {
	e.order.Remove(e.byKey[key])
	delete(e.byKey, key)
}

// removeOldest removes the entry that was used least recently.
func (e *entries) removeOldest() {
	e.remove(e.order.Front().Value.(*entry).key)
}
