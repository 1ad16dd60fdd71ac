package order

import (
	"reflect"
	"testing"
)

var build = map[string][]string{"app": {"lib", "assets"}, "lib": {}, "assets": {"lib"}, "docs": {}}

func TestTheOrderOfTheStatement(t *testing.T) {
	got, err := BuildOrder(build)
	if want := []string{"docs", "lib", "assets", "app"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestACircleIsAnError(t *testing.T) {
	if got, err := BuildOrder(map[string][]string{"a": {"b"}, "b": {"a"}}); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestAnUnknownNeedIsAnError(t *testing.T) {
	if got, err := BuildOrder(map[string][]string{"a": {"b"}}); err == nil {
		t.Errorf("got %v, want an error", got)
	}
}

func TestTheWavesOfTheStatement(t *testing.T) {
	got, err := BuildWaves(build)
	if want := [][]string{{"docs", "lib"}, {"assets"}, {"app"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
