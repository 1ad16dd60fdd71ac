package hutchdebugger

import (
	"cmp"
	"go/token"
	"reflect"
)

// binary applies an operator to two values of one type; a number fits the type of the other.
func binary(operator token.Token, left, right reflect.Value) reflect.Value {
	switch operator {
	case token.LAND, token.LOR:
		return reflect.ValueOf(right.Bool()) // the left one has not decided
	case token.EQL, token.NEQ:
		return reflect.ValueOf(equal(left, right) == (operator == token.EQL))
	}
	for left.Kind() == reflect.Interface {
		left = left.Elem()
	}
	for right.Kind() == reflect.Interface {
		right = right.Elem()
	}
	if left.Type() != right.Type() {
		if right.CanFloat() && left.CanInt() && left.Type() == reflect.TypeOf(0) {
			left = fit(left, right.Type())
		} else {
			right = fit(right, left.Type())
		}
	}
	switch {
	case left.CanInt():
		return integers(operator, left.Int(), right.Int(), left.Type())
	case left.CanUint():
		return integers(operator, left.Uint(), right.Uint(), left.Type())
	case left.CanFloat():
		return ordered(operator, left.Float(), right.Float(), left.Type())
	case left.Kind() == reflect.String:
		return ordered(operator, left.String(), right.String(), left.Type())
	}
	panic("operator " + operator.String() + " is not supported here")
}

func equal(left, right reflect.Value) bool {
	if !left.IsValid() || !right.IsValid() {
		return isNil(left) && isNil(right)
	}
	if left.Type() != right.Type() && left.Kind() != reflect.Interface && right.Kind() != reflect.Interface {
		if left.Type() == reflect.TypeOf(0) {
			left = fit(left, right.Type())
		} else {
			right = fit(right, left.Type())
		}
	}
	return left.Equal(right)
}

func isNil(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return value.IsNil()
	}
	return false
}

func integers[T int64 | uint64](operator token.Token, left, right T, kind reflect.Type) reflect.Value {
	var result T
	switch operator {
	case token.SUB:
		result = left - right
	case token.MUL:
		result = left * right
	case token.QUO:
		result = left / right
	case token.REM:
		result = left % right
	case token.AND:
		result = left & right
	case token.OR:
		result = left | right
	case token.XOR:
		result = left ^ right
	case token.SHL:
		result = left << right
	case token.SHR:
		result = left >> right
	default:
		return ordered(operator, left, right, kind)
	}
	return reflect.ValueOf(result).Convert(kind)
}

func ordered[T cmp.Ordered](operator token.Token, left, right T, kind reflect.Type) reflect.Value {
	switch operator {
	case token.ADD:
		return reflect.ValueOf(left + right).Convert(kind)
	case token.LSS:
		return reflect.ValueOf(left < right)
	case token.LEQ:
		return reflect.ValueOf(left <= right)
	case token.GTR:
		return reflect.ValueOf(left > right)
	case token.GEQ:
		return reflect.ValueOf(left >= right)
	}
	if leftNumber, isFloat := any(left).(float64); isFloat {
		rightNumber := any(right).(float64)
		switch operator {
		case token.SUB:
			return reflect.ValueOf(leftNumber - rightNumber).Convert(kind)
		case token.MUL:
			return reflect.ValueOf(leftNumber * rightNumber).Convert(kind)
		case token.QUO:
			return reflect.ValueOf(leftNumber / rightNumber).Convert(kind)
		}
	}
	panic("operator " + operator.String() + " is not supported here")
}
