// Package order finds the order of the tasks of a build by what they need.
package order

// BuildOrder returns all tasks, each after those that it needs; of several that could be next, the
// alphabetically first.
func BuildOrder(tasks map[string][]string) ([]string, error) {
	panic("not written yet")
}

// BuildWaves returns all tasks in waves: those of a wave need only tasks of earlier waves.
func BuildWaves(tasks map[string][]string) ([][]string, error) {
	panic("not written yet")
}
