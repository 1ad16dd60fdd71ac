package order

import (
	"fmt"
	"sort"
)

// BuildOrder does first what was ready first.
func BuildOrder(tasks map[string][]string) ([]string, error) {
	graph, err := graphOf(tasks)
	if err != nil {
		return nil, err
	}
	order := graph.readyAtFirst()
	sort.Strings(order)
	for at := 0; at < len(order); at++ {
		next := graph.release(order[at])
		sort.Strings(next)
		order = append(order, next...)
	}
	if len(order) < len(tasks) {
		return nil, graph.circle(tasks)
	}
	return order, nil
}

// BuildWaves returns all tasks in waves: those of a wave need only tasks of earlier waves.
func BuildWaves(tasks map[string][]string) ([][]string, error) {
	graph, err := graphOf(tasks)
	if err != nil {
		return nil, err
	}
	waves, done := [][]string{}, 0
	for wave := graph.readyAtFirst(); len(wave) > 0; {
		sort.Strings(wave)
		waves, done = append(waves, wave), done+len(wave)
		next := []string{}
		for _, name := range wave {
			next = append(next, graph.release(name)...)
		}
		wave = next
	}
	if done < len(tasks) {
		return nil, graph.circle(tasks)
	}
	return waves, nil
}

// A graph has for each task the number of its open needs, and the tasks that need it.
type graph struct {
	openNeeds map[string]int
	users     map[string][]string
}

func graphOf(tasks map[string][]string) (graph, error) {
	found := graph{map[string]int{}, map[string][]string{}}
	for name, needs := range tasks {
		distinct := map[string]bool{}
		for _, need := range needs {
			if _, known := tasks[need]; !known {
				return found, fmt.Errorf("%q needs %q, which is not a task", name, need)
			}
			if !distinct[need] {
				distinct[need] = true
				found.users[need] = append(found.users[need], name)
			}
		}
		found.openNeeds[name] = len(distinct)
	}
	return found, nil
}

func (g graph) readyAtFirst() []string {
	ready := []string{}
	for name, count := range g.openNeeds {
		if count == 0 {
			ready = append(ready, name)
		}
	}
	return ready
}

// release counts a task as done; it returns those that need nothing else.
func (g graph) release(name string) []string {
	ready := []string{}
	for _, user := range g.users[name] {
		g.openNeeds[user]--
		if g.openNeeds[user] == 0 {
			ready = append(ready, user)
		}
	}
	return ready
}

// circle is an error that names a task in or behind a circle.
func (g graph) circle(tasks map[string][]string) error {
	left := []string{}
	for name, count := range g.openNeeds {
		if count > 0 {
			left = append(left, name)
		}
	}
	sort.Strings(left)
	return fmt.Errorf("tasks need each other in a circle, among them: %v", left)
}
