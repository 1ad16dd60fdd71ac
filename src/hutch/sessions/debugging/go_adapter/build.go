package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

const (
	debuggerPackage = "hutchdebugger"
	maxErrorBytes   = 4000
)

type goPackage struct {
	Dir, ImportPath, Name string
	GoFiles               []string
	Module                *struct{ Path, Dir string }
	DepOnly               bool
}

// build compiles the package of a directory, or its tests, with the calls of the debugger, and returns the program.
func build(directory string, isTest bool) (string, error) {
	packages, module, err := listPackages(directory, isTest)
	if err != nil {
		return "", err
	}
	place, err := filepath.Abs(filepath.Dir(os.Args[0]))
	if err != nil {
		return "", err
	}
	overlay, table := map[string]string{}, &strings.Builder{}
	fmt.Fprintf(table, "package %s\n\nvar sourceFiles = []sourceFile{\n", debuggerPackage)
	index := 0
	for _, path := range sortedFiles(packages) {
		instrumented, lines, err := instrument(path, module.Path+"/"+debuggerPackage, index)
		if err != nil || instrumented == nil { // the compiler reports what is wrong with it
			continue
		}
		copied := filepath.Join(place, fmt.Sprintf("file%d.go", index))
		if err := os.WriteFile(copied, instrumented, 0o600); err != nil {
			return "", err
		}
		overlay[path] = copied
		fmt.Fprintf(table, "\t{%q, %#v},\n", path, lines)
		index++
	}
	table.WriteString("}\n")
	tablePath := filepath.Join(place, "runtime", "table.go")
	if err := os.WriteFile(tablePath, []byte(table.String()), 0o600); err != nil {
		return "", err
	}
	runtimeFiles, err := filepath.Glob(filepath.Join(place, "runtime", "*.go"))
	if err != nil {
		return "", err
	}
	for _, path := range runtimeFiles {
		overlay[filepath.Join(module.Dir, debuggerPackage, filepath.Base(path))] = path
	}
	described, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	overlayPath, binary := filepath.Join(place, "overlay.json"), filepath.Join(place, "program")
	if err := os.WriteFile(overlayPath, described, 0o600); err != nil {
		return "", err
	}
	words := []string{"build", "-overlay", overlayPath, "-o", binary, "."}
	if isTest {
		words = []string{"test", "-c", "-vet=off", "-overlay", overlayPath, "-o", binary, "."}
	}
	_, err = runGo(directory, words...)
	return binary, err
}

type goModule struct{ Path, Dir string }

// listPackages returns the packages of the module that the program has.
func listPackages(directory string, isTest bool) ([]goPackage, goModule, error) {
	words := []string{"list", "-json=Dir,ImportPath,Name,GoFiles,Module,DepOnly", "-deps"}
	if isTest {
		words = append(words, "-test")
	}
	out, err := runGo(directory, append(words, ".")...)
	if err != nil {
		return nil, goModule{}, err
	}
	var all []goPackage
	target := goPackage{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var each goPackage
		if err := decoder.Decode(&each); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, goModule{}, err
		}
		all = append(all, each)
		if !each.DepOnly && !strings.HasSuffix(each.ImportPath, ".test") && target.Name == "" {
			target = each
		}
	}
	if target.Module == nil {
		return nil, goModule{}, errors.New("there is no go.mod: only packages of a module can be debugged")
	}
	if !isTest && target.Name != "main" {
		return nil, goModule{}, fmt.Errorf("package %s is no program: debug one of its tests", target.Name)
	}
	module := goModule{target.Module.Path, target.Module.Dir}
	var found []goPackage
	for _, each := range all {
		if each.Module != nil && each.Module.Path == module.Path && !strings.HasSuffix(each.ImportPath, ".test") {
			found = append(found, each)
		}
	}
	return found, module, nil
}

func sortedFiles(packages []goPackage) []string {
	known := map[string]bool{}
	for _, each := range packages {
		for _, name := range each.GoFiles {
			known[filepath.Join(each.Dir, name)] = true
		}
	}
	var paths []string
	for path := range known {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	return paths
}

func runGo(directory string, words ...string) ([]byte, error) {
	command := exec.Command("go", words...)
	command.Dir = directory
	var errorText bytes.Buffer
	command.Stderr = &errorText
	out, err := command.Output()
	if err == nil {
		return out, nil
	}
	text := bytes.TrimSpace(errorText.Bytes())
	if len(text) > maxErrorBytes {
		text = text[:maxErrorBytes]
	}
	return nil, fmt.Errorf("%s (go %s: %w)", text, words[0], err)
}
