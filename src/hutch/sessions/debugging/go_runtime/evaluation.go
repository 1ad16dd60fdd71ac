package hutchdebugger

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// evaluate reads an expression in a frame: variables, fields, elements, operators, len and cap, and exported
// methods. An assignment to something that has an address changes it. Functions cannot be called: a program has
// no list of its functions.
func evaluate(source string, frame *Frame) (result reflect.Value, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	known := map[string]reflect.Value{}
	for _, each := range append(globalsOf(frame), variablesOf(frame)...) {
		known[each.name] = each.value
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() { "+source+"\n}", 0)
	if err != nil {
		return result, errors.New(strings.TrimPrefix(err.Error(), "1:23: "))
	}
	body := parsed.Decls[0].(*ast.FuncDecl).Body.List
	if len(parsed.Decls) != 1 || len(body) != 1 {
		return result, errors.New("write one expression")
	}
	switch statement := body[0].(type) {
	case *ast.ExprStmt:
		return eval(statement.X, known), nil
	case *ast.AssignStmt:
		if statement.Tok != token.ASSIGN || len(statement.Lhs) != 1 || len(statement.Rhs) != 1 {
			break
		}
		value := eval(statement.Rhs[0], known)
		if index, isIndex := statement.Lhs[0].(*ast.IndexExpr); isIndex {
			if mapping := indirect(eval(index.X, known)); mapping.Kind() == reflect.Map {
				key := fit(eval(index.Index, known), mapping.Type().Key())
				mapping.SetMapIndex(key, fit(value, mapping.Type().Elem()))
				return mapping.MapIndex(key), nil
			}
		}
		target := eval(statement.Lhs[0], known)
		if !target.CanSet() {
			panic("it cannot be changed")
		}
		target.Set(fit(value, target.Type()))
		return target, nil
	}
	return result, errors.New("write one expression, or one assignment with =")
}

func holds(value reflect.Value) bool {
	return value.Kind() == reflect.Bool && value.Bool()
}

func eval(expression ast.Expr, known map[string]reflect.Value) reflect.Value {
	switch each := expression.(type) {
	case *ast.ParenExpr:
		return eval(each.X, known)
	case *ast.Ident:
		return identifier(each.Name, known)
	case *ast.BasicLit:
		return literal(each)
	case *ast.StarExpr:
		return eval(each.X, known).Elem()
	case *ast.SelectorExpr:
		return selected(eval(each.X, known), each.Sel.Name)
	case *ast.IndexExpr:
		return element(indirect(eval(each.X, known)), eval(each.Index, known))
	case *ast.SliceExpr:
		value := indirect(eval(each.X, known))
		low, high := 0, value.Len()
		if each.Low != nil {
			low = int(fit(eval(each.Low, known), reflect.TypeOf(0)).Int())
		}
		if each.High != nil {
			high = int(fit(eval(each.High, known), reflect.TypeOf(0)).Int())
		}
		return value.Slice(low, high)
	case *ast.UnaryExpr:
		return unary(each.Op, eval(each.X, known))
	case *ast.BinaryExpr:
		left := eval(each.X, known)
		if each.Op == token.LAND && !left.Bool() || each.Op == token.LOR && left.Bool() {
			return left
		}
		return binary(each.Op, left, eval(each.Y, known))
	case *ast.CallExpr:
		return called(each, known)
	}
	panic("this kind of expression is not supported")
}

func identifier(name string, known map[string]reflect.Value) reflect.Value {
	if found, isKnown := known[name]; isKnown {
		return found
	}
	switch name {
	case "true", "false":
		return reflect.ValueOf(name == "true")
	case "nil":
		return reflect.Value{}
	}
	panic("undefined: " + name)
}

func literal(each *ast.BasicLit) reflect.Value {
	switch each.Kind {
	case token.INT:
		number, err := strconv.ParseInt(each.Value, 0, 64)
		if err != nil {
			panic(err.Error())
		}
		return reflect.ValueOf(int(number))
	case token.FLOAT:
		number, err := strconv.ParseFloat(each.Value, 64)
		if err != nil {
			panic(err.Error())
		}
		return reflect.ValueOf(number)
	case token.STRING:
		unquoted, err := strconv.Unquote(each.Value)
		if err != nil {
			panic(err.Error())
		}
		return reflect.ValueOf(unquoted)
	case token.CHAR:
		char, _, _, err := strconv.UnquoteChar(strings.Trim(each.Value, "'"), '\'')
		if err != nil {
			panic(err.Error())
		}
		return reflect.ValueOf(char)
	}
	panic("this kind of number is not supported")
}

func indirect(value reflect.Value) reflect.Value {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	return value
}

func selected(value reflect.Value, name string) reflect.Value {
	for value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	inner := indirect(value)
	if inner.Kind() == reflect.Struct {
		if field := inner.FieldByName(name); field.IsValid() {
			return readable(field)
		}
	}
	if !value.IsValid() {
		panic("it is nil")
	}
	if method := value.MethodByName(name); method.IsValid() {
		return method
	}
	if value.CanAddr() {
		if method := value.Addr().MethodByName(name); method.IsValid() {
			return method
		}
	}
	panic(fmt.Sprintf("%s has no field or exported method %s", value.Type(), name))
}

func element(value, index reflect.Value) reflect.Value {
	if value.Kind() == reflect.Map {
		found := value.MapIndex(fit(index, value.Type().Key()))
		if !found.IsValid() {
			return reflect.Zero(value.Type().Elem())
		}
		return found
	}
	return value.Index(int(fit(index, reflect.TypeOf(0)).Int()))
}

// fit makes a value one of this type, as Go does with constants.
func fit(value reflect.Value, kind reflect.Type) reflect.Value {
	if !value.IsValid() {
		return reflect.Zero(kind)
	}
	if value.Type().AssignableTo(kind) {
		return value
	}
	if value.CanConvert(kind) && (value.Kind() == reflect.String) == (kind.Kind() == reflect.String) {
		return value.Convert(kind)
	}
	panic(fmt.Sprintf("%s is not %s", value.Type(), kind))
}

func unary(operator token.Token, value reflect.Value) reflect.Value {
	switch {
	case operator == token.NOT:
		return reflect.ValueOf(!value.Bool())
	case operator == token.AND:
		return value.Addr()
	case operator == token.SUB && value.CanFloat():
		return reflect.ValueOf(-value.Float()).Convert(value.Type())
	case operator == token.SUB && value.CanInt():
		return reflect.ValueOf(-value.Int()).Convert(value.Type())
	}
	panic("this operator is not supported here")
}

func called(call *ast.CallExpr, known map[string]reflect.Value) reflect.Value {
	var arguments []reflect.Value
	for _, each := range call.Args {
		arguments = append(arguments, eval(each, known))
	}
	if name, isName := call.Fun.(*ast.Ident); isName && known[name.Name].Kind() != reflect.Func {
		switch {
		case name.Name == "len" && len(arguments) == 1:
			return reflect.ValueOf(indirect(arguments[0]).Len())
		case name.Name == "cap" && len(arguments) == 1:
			return reflect.ValueOf(indirect(arguments[0]).Cap())
		}
		panic("functions cannot be called here, only len, cap, exported methods and functions in variables")
	}
	function := eval(call.Fun, known)
	kind := function.Type()
	if kind.IsVariadic() || kind.NumIn() != len(arguments) {
		panic(fmt.Sprintf("it takes %d arguments", kind.NumIn()))
	}
	for i := range arguments {
		arguments[i] = fit(arguments[i], kind.In(i))
	}
	results := function.Call(arguments)
	switch len(results) {
	case 0:
		return reflect.Value{}
	case 1:
		return results[0]
	}
	all := make([]interface{}, len(results))
	for i, each := range results {
		all[i] = each.Interface()
	}
	return reflect.ValueOf(all)
}
