package hutchdebugger

import (
	"fmt"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"unsafe"
)

const (
	maxValueChars = 2000
	maxParts      = 500
	maxShownParts = 20 // in the text of a value
	maxDepth      = 3
)

type variable struct {
	name  string
	value reflect.Value
}

var references [][]variable // of one stop

func forgetValues() {
	references, shown = nil, nil
}

func referTo(parts []variable) int {
	references = append(references, parts)
	return len(references)
}

func partsOf(reference int) ([]object, error) {
	if reference < 1 || reference > len(references) {
		return nil, fmt.Errorf("there is no variable %d", reference)
	}
	told := make([]object, 0)
	for _, each := range references[reference-1] {
		told = append(told, describe(each.name, each.value))
	}
	return told, nil
}

// variablesOf reads the variables of a call, the innermost first.
func variablesOf(frame *Frame) []variable {
	if frame.read == nil {
		return nil
	}
	return pairs(frame.read())
}

// globalsOf reads the variables of the package.
func globalsOf(frame *Frame) []variable {
	var found []variable
	directory := filepath.Dir(sourceFiles[frame.file].path)
	globals.Range(func(file, read interface{}) bool {
		if filepath.Dir(sourceFiles[file.(int)].path) == directory {
			found = append(found, pairs(read.(func() []interface{})())...)
		}
		return true
	})
	sort.SliceStable(found, func(i, j int) bool { return found[i].name < found[j].name })
	return found
}

func pairs(given []interface{}) []variable {
	var found []variable
	for i := 0; i+1 < len(given); i += 2 {
		found = append(found, variable{given[i].(string), reflect.ValueOf(given[i+1]).Elem()})
	}
	return found
}

func describe(name string, value reflect.Value) object {
	reference := 0
	if parts := partsOfValue(value); len(parts) > 0 {
		reference = referTo(parts)
	}
	kind := ""
	if value.IsValid() {
		kind = value.Type().String()
	}
	return object{"name": name, "value": shorten(text(value, 0), maxValueChars), "type": kind, "variablesReference": reference}
}

func partsOfValue(value reflect.Value) []variable {
	for value.IsValid() && (value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface) {
		value = value.Elem()
	}
	var found []variable
	switch value.Kind() {
	case reflect.Struct:
		for i := 0; i < value.NumField() && i < maxParts; i++ {
			found = append(found, variable{value.Type().Field(i).Name, readable(value.Field(i))})
		}
	case reflect.Slice, reflect.Array:
		for i := 0; i < value.Len() && i < maxParts; i++ {
			found = append(found, variable{fmt.Sprintf("[%d]", i), value.Index(i)})
		}
	case reflect.Map:
		for _, key := range sortedKeys(value) {
			found = append(found, variable{"[" + shorten(text(key, 0), 100) + "]", value.MapIndex(key)})
		}
	}
	return found
}

// readable allows to call the methods of an unexported field and to change it, if it has an address.
func readable(value reflect.Value) reflect.Value {
	if value.CanAddr() && !value.CanInterface() {
		return reflect.NewAt(value.Type(), unsafe.Pointer(value.UnsafeAddr())).Elem()
	}
	return value
}

func sortedKeys(value reflect.Value) []reflect.Value {
	keys := value.MapKeys()
	if len(keys) > maxParts {
		keys = keys[:maxParts]
	}
	sort.Slice(keys, func(i, j int) bool {
		if keys[i].CanInt() && keys[j].CanInt() {
			return keys[i].Int() < keys[j].Int()
		}
		return text(keys[i], maxDepth) < text(keys[j], maxDepth)
	})
	return keys
}

// text writes a value as Go would, without calling its methods.
func text(value reflect.Value, depth int) string {
	switch value.Kind() {
	case reflect.Invalid:
		return "nil"
	case reflect.Bool:
		return strconv.FormatBool(value.Bool())
	case reflect.String:
		return strconv.Quote(shorten(value.String(), maxValueChars))
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(value.Float(), 'g', -1, value.Type().Bits())
	case reflect.Complex64, reflect.Complex128:
		return fmt.Sprint(value.Complex())
	case reflect.Interface:
		return text(value.Elem(), depth)
	case reflect.Pointer:
		if value.IsNil() {
			return "nil"
		}
		return "&" + text(value.Elem(), depth+1)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		if value.IsNil() {
			return "nil"
		}
		return value.Type().String()
	}
	if value.CanInt() {
		return strconv.FormatInt(value.Int(), 10)
	}
	if value.CanUint() {
		return strconv.FormatUint(value.Uint(), 10)
	}
	return value.Type().String() + partsText(value, depth)
}

func partsText(value reflect.Value, depth int) string {
	if (value.Kind() == reflect.Slice || value.Kind() == reflect.Map) && value.IsNil() {
		return "(nil)"
	}
	if depth >= maxDepth {
		return "{…}"
	}
	var words []string
	switch value.Kind() {
	case reflect.Struct:
		for i := 0; i < value.NumField() && i < maxShownParts; i++ {
			words = append(words, value.Type().Field(i).Name+": "+text(value.Field(i), depth+1))
		}
	case reflect.Map:
		for _, key := range sortedKeys(value)[:min(value.Len(), maxShownParts)] {
			words = append(words, text(key, depth+1)+": "+text(value.MapIndex(key), depth+1))
		}
	default:
		for i := 0; i < value.Len() && i < maxShownParts; i++ {
			words = append(words, text(value.Index(i), depth+1))
		}
	}
	if value.Kind() != reflect.Struct && value.Len() > maxShownParts {
		words = append(words, fmt.Sprintf("… %d in all", value.Len()))
	}
	return "{" + strings.Join(words, ", ") + "}"
}

func shorten(given string, maxChars int) string {
	if len(given) <= maxChars {
		return given
	}
	return strings.ToValidUTF8(given[:maxChars], "") + "…"
}
