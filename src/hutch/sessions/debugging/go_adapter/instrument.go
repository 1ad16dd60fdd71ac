package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"sort"
	"strings"
)

// instrument returns a file with a call of the debugger before each statement, and the lines of the statements.
// Text is only inserted within lines, so lines keep their numbers. Nil if the file cannot have the calls.
func instrument(path, runtimePackage string, index int) ([]byte, []int, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, err
	}
	for _, each := range parsed.Imports {
		if each.Path.Value == `"C"` {
			return nil, nil, nil
		}
	}
	work := &instrumentation{files: files, index: index, lines: map[int]bool{}}
	work.insert(parsed.Name.End(), fmt.Sprintf("; import %s %q", debuggerPackage, runtimePackage))
	var globals []string
	for _, declaration := range parsed.Decls {
		switch declared := declaration.(type) {
		case *ast.FuncDecl:
			if declared.Body != nil {
				work.function(functionName(declared), declared.Recv, declared.Type, declared.Body, nil)
			}
		case *ast.GenDecl:
			work.literals(declared, "init", nil)
			if declared.Tok == token.VAR {
				globals = declaredNames(declared, globals)
			}
		}
	}
	end := fmt.Sprintf("\nfunc init() { %s.AddGlobals(%d, %s) }\n", debuggerPackage, index, variables(globals))
	start := fmt.Sprintf("/*line %s:1:1*/", path) // for errors of the compiler, and traces of panics
	return []byte(start + string(work.apply(source)) + end), work.sortedLines(), nil
}

type insertion struct {
	offset int
	text   string
}

type instrumentation struct {
	files      *token.FileSet
	index      int
	insertions []insertion
	lines      map[int]bool
}

func (work *instrumentation) insert(at token.Pos, text string) {
	work.insertions = append(work.insertions, insertion{work.files.PositionFor(at, false).Offset, text})
}

func (work *instrumentation) apply(source []byte) []byte {
	sort.SliceStable(work.insertions, func(i, j int) bool { return work.insertions[i].offset < work.insertions[j].offset })
	var out bytes.Buffer
	from := 0
	for _, each := range work.insertions {
		out.Write(source[from:each.offset])
		out.WriteString(each.text)
		from = each.offset
	}
	out.Write(source[from:])
	return out.Bytes()
}

func (work *instrumentation) sortedLines() []int {
	found := []int{}
	for line := range work.lines {
		found = append(found, line)
	}
	sort.Ints(found)
	return found
}

// function follows the calls of a function. `names` are the variables around a function literal.
func (work *instrumentation) function(name string, receiver *ast.FieldList, kind *ast.FuncType, body *ast.BlockStmt, names []string) {
	enter := fmt.Sprintf(" hutchdebugger_ := %s.Enter(%d, %q); defer hutchdebugger_.Exit();", debuggerPackage, work.index, name)
	work.insert(body.Lbrace+1, enter)
	for _, fields := range []*ast.FieldList{receiver, kind.Params, kind.Results} {
		if fields == nil {
			continue
		}
		for _, field := range fields.List {
			for _, each := range field.Names {
				names = with(names, each.Name)
			}
		}
	}
	work.statements(body.List, name, names)
}

func (work *instrumentation) statements(list []ast.Stmt, function string, names []string) {
	for _, statement := range list {
		if _, isEmpty := statement.(*ast.EmptyStmt); isEmpty {
			continue
		}
		line := work.files.PositionFor(statement.Pos(), false).Line
		work.lines[line] = true
		work.insert(statement.Pos(), fmt.Sprintf("hutchdebugger_.See(%d, %s);", line, variables(names)))
		work.inside(statement, function, names)
		names = declaredBy(statement, names)
	}
}

// inside follows the parts of a statement, each with the variables that it sees.
func (work *instrumentation) inside(statement ast.Stmt, function string, names []string) {
	switch each := statement.(type) {
	case *ast.LabeledStmt:
		work.inside(each.Stmt, function, names)
	case *ast.BlockStmt:
		work.statements(each.List, function, names)
	case *ast.IfStmt:
		names = work.head(function, names, each.Init, each.Cond)
		work.statements(each.Body.List, function, names)
		if each.Else != nil {
			work.inside(each.Else, function, names)
		}
	case *ast.ForStmt:
		names = work.head(function, names, each.Init, each.Cond)
		if each.Post != nil {
			work.literals(each.Post, function, names)
		}
		work.statements(each.Body.List, function, names)
	case *ast.RangeStmt:
		work.literals(each.X, function, names)
		if each.Tok == token.DEFINE {
			names = withExpressions(names, each.Key, each.Value)
		}
		work.statements(each.Body.List, function, names)
	case *ast.SwitchStmt:
		work.clauses(each.Body, function, work.head(function, names, each.Init, each.Tag))
	case *ast.TypeSwitchStmt:
		names = work.head(function, names, each.Init, nil)
		work.literals(each.Assign, function, names)
		work.clauses(each.Body, function, declaredBy(each.Assign, names))
	case *ast.SelectStmt:
		work.clauses(each.Body, function, names)
	default:
		work.literals(statement, function, names)
	}
}

func (work *instrumentation) head(function string, names []string, init ast.Stmt, condition ast.Expr) []string {
	if init != nil {
		work.literals(init, function, names)
		names = declaredBy(init, names)
	}
	if condition != nil {
		work.literals(condition, function, names)
	}
	return names
}

func (work *instrumentation) clauses(body *ast.BlockStmt, function string, names []string) {
	for _, statement := range body.List {
		switch clause := statement.(type) {
		case *ast.CaseClause:
			for _, each := range clause.List {
				work.literals(each, function, names)
			}
			work.statements(clause.Body, function, names)
		case *ast.CommClause:
			seen := names
			if clause.Comm != nil {
				work.literals(clause.Comm, function, names)
				seen = declaredBy(clause.Comm, names)
			}
			work.statements(clause.Body, function, seen)
		}
	}
}

// literals follows the function literals of a node.
func (work *instrumentation) literals(node ast.Node, function string, names []string) {
	ast.Inspect(node, func(each ast.Node) bool {
		literal, isLiteral := each.(*ast.FuncLit)
		if isLiteral {
			work.function(function+".func", nil, literal.Type, literal.Body, names)
		}
		return !isLiteral
	})
}

// variables is the expression of a function that returns names and addresses, read only when the program stops.
func variables(names []string) string {
	var parts []string
	seen := map[string]bool{}
	for i := len(names) - 1; i >= 0; i-- { // an inner name hides an outer one
		name, isHidden := strings.CutPrefix(names[i], "-")
		if !seen[name] && !isHidden {
			parts = append(parts, fmt.Sprintf("%q, &%s", name, name))
		}
		seen[name] = true
	}
	if len(parts) == 0 {
		return "nil"
	}
	return "func() []interface{} { return []interface{}{" + strings.Join(parts, ", ") + "} }"
}

func declaredBy(statement ast.Stmt, names []string) []string {
	switch each := statement.(type) {
	case *ast.LabeledStmt:
		return declaredBy(each.Stmt, names)
	case *ast.AssignStmt:
		if each.Tok == token.DEFINE {
			return withExpressions(names, each.Lhs...)
		}
	case *ast.DeclStmt:
		if declaration, isGeneral := each.Decl.(*ast.GenDecl); isGeneral {
			return declaredNames(declaration, names)
		}
	}
	return names
}

// declaredNames adds variables; types and constants have no address, and hide variables: they get a minus.
func declaredNames(declaration *ast.GenDecl, names []string) []string {
	for _, specification := range declaration.Specs {
		switch each := specification.(type) {
		case *ast.ValueSpec:
			for _, name := range each.Names {
				if declaration.Tok == token.VAR {
					names = with(names, name.Name)
				} else {
					names = with(names, "-"+name.Name)
				}
			}
		case *ast.TypeSpec:
			names = with(names, "-"+each.Name.Name)
		}
	}
	return names
}

func withExpressions(names []string, expressions ...ast.Expr) []string {
	for _, each := range expressions {
		if name, isName := each.(*ast.Ident); isName {
			names = with(names, name.Name)
		}
	}
	return names
}

func with(names []string, name string) []string {
	if name == "_" || name == "-_" {
		return names
	}
	return append(names[:len(names):len(names)], name)
}

func functionName(declared *ast.FuncDecl) string {
	if declared.Recv == nil || len(declared.Recv.List) == 0 {
		return declared.Name.Name
	}
	kind, format := declared.Recv.List[0].Type, "%s.%s"
	if pointer, isPointer := kind.(*ast.StarExpr); isPointer {
		kind, format = pointer.X, "(*%s).%s"
	}
	switch generic := kind.(type) {
	case *ast.IndexExpr:
		kind = generic.X
	case *ast.IndexListExpr:
		kind = generic.X
	}
	if name, isName := kind.(*ast.Ident); isName {
		return fmt.Sprintf(format, name.Name, declared.Name.Name)
	}
	return declared.Name.Name
}
