package architecture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one package of the module as it stands on disk.
type source struct {
	path, name, dir, doc string
	files                []file
}

type file struct {
	name   string
	test   bool
	syntax *ast.File
}

func TestImportsPointOneWay(t *testing.T) {
	for _, pkg := range packages(t) {
		for _, f := range pkg.files {
			for _, broken := range brokenImports(pkg.path, f) {
				t.Error(broken)
			}
		}
	}
}

func TestPurePackagesTouchNoClockAndStartNoGoroutine(t *testing.T) {
	for _, pkg := range packages(t) {
		if !within(pkg.path, pure.in) || within(pkg.path, pure.but) {
			continue
		}
		for _, f := range pkg.files {
			if f.test {
				continue
			}
			for _, slip := range impurities(f) {
				t.Errorf("%s: %s", pkg.path, slip)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, pkg := range packages(t) {
		if pkg.doc == "" && slices.ContainsFunc(pkg.files, func(f file) bool { return !f.test }) {
			t.Errorf("%s has no doc comment: say what it owns, what it refuses and its concurrency rules", pkg.path)
		}
		if bannedNames[pkg.name] || bannedNames[path.Base(pkg.path)] {
			t.Errorf("%s has a name that says nothing: name it after what it provides", pkg.path)
		}
	}
}

// The rules themselves: each case is a line of source that must be found, or
// must not.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	tests := []struct {
		pkg, file, imports string
		broken             bool
	}{
		{"berth/broker", "a.go", "berth/broker/catalog", true},
		{"berth/broker/policy", "a.go", "berth/broker/catalog", false},
		{"berth/broker/policy", "a.go", "berth/actors", true},
		{"berth/broker/policy", "a_test.go", "berth/actors", false},
		{"berth/broker/native/jobs", "a.go", "os", true},
		{"berth/broker/native/jobs", "a.go", "os/exec", true},
		{"berth/broker/config", "a.go", "net/url", false},
		{"berth/broker/config", "a.go", "net", true},
		{"berth/broker/config/gendoc", "a.go", "os", false},
		{"berth/broker/admission", "a.go", "crypto/rand", true},
		{"berth/journal", "a.go", "berth/broker", false},
		{"berth/journal", "a.go", "berth/broker/catalog", true},
		{"berth/journal", "a.go", "berth/actors", true},
		{"berth/journal", "a.go", "go.etcd.io/bbolt", false},
		{"berth/actors", "a.go", "berth/journal", true},
		{"berth/actors", "a.go", "berth/transport/mcpclient", true},
		{"berth/actors", "a.go", "github.com/asynkron/protoactor-go/actor", false},
		{"berth/actors", "a_test.go", "github.com/asynkron/protoactor-go/router", true},
		{"berth/transport/rest", "a.go", "berth/journal", true},
		{"berth/transport/rest", "a.go", "berth/actors", false},
		{"berth/transport/mcpclient", "a.go", "berth/actors", true},
		{"berth/transport/mcpserver", "a.go", "github.com/mark3labs/mcp-go/server", true},
		{"berth/transport/mcpserver", "a_test.go", "github.com/mark3labs/mcp-go/server", false},
		{"berth/transport/mcpserver", "a.go", "github.com/mark3labs/mcp-go/mcp", false},
		{"berth/transport/rest", "a.go", "go.etcd.io/bbolt", true},
		{"berth/cmd/berth", "a.go", "berth/journal", false},
		{"berth/cmd/berth", "a.go", "log", true},
		{"berth/transport/rest", "a_test.go", "berth/cmd/berth", true},
		{"berth/transport/app/resmon", "a.go", "berth/transport/app/resmontest", true},
		{"berth/transport/app/resmon", "a_test.go", "berth/transport/app/resmontest", false},
		{"berth/transport/app/resmontest/cmd", "a.go", "berth/transport/app/resmontest", false},
		{"berth/cmd/berth", "a.go", "berth/transport/app/resmontest", true},
		{"berth/broker", "a.go", "osmosis", false},
	}
	for _, tt := range tests {
		t.Run(tt.pkg+" "+tt.file+" "+tt.imports, func(t *testing.T) {
			f := parse(t, tt.file, fmt.Sprintf("package p\nimport _ %q\n", tt.imports))
			if got := brokenImports(tt.pkg, f); (len(got) > 0) != tt.broken {
				t.Errorf("found %q, want a finding: %v", got, tt.broken)
			}
		})
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	tests := []struct {
		name, source string
		found        int
	}{
		{"a goroutine", "package p\nfunc f() { go f() }", 1},
		{"a clock", "package p\nimport \"time\"\nvar x = time.Now()", 1},
		{"a clock as a value", "package p\nimport \"time\"\nvar now = time.Now", 1},
		{"a clock under another name", "package p\nimport clock \"time\"\nvar x = clock.After(1)", 1},
		{"a timer of a context", "package p\nimport \"context\"\nfunc f(c context.Context) { context.WithTimeout(c, 1) }", 1},
		{"a goroutine of a wait group", "package p\nimport \"sync\"\nfunc f() { var w sync.WaitGroup; w.Go(func() {}) }", 1},
		{"global randomness", "package p\nimport \"math/rand/v2\"\nvar x = rand.IntN(3)", 1},
		{"randomness as an argument", "package p\nimport \"math/rand/v2\"\nfunc f(r *rand.Rand) int { return r.IntN(3) }", 0},
		{"a duration", "package p\nimport \"time\"\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }", 0},
		{"another package of that name", "package p\nimport \"example/time\"\nvar x = time.Now()", 0},
		{"everything of a package", "package p\nimport . \"time\"\nvar x = Now()", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := impurities(parse(t, "p.go", tt.source)); len(got) != tt.found {
				t.Errorf("found %q, want %d", got, tt.found)
			}
		})
	}
}

func brokenImports(pkg string, f file) []string {
	var out []string
	for _, spec := range f.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		for _, r := range rules {
			if r.breaks(pkg, imported, f.test) {
				out = append(out, fmt.Sprintf("%s (%s) imports %s: %s, because %s", pkg, f.name, imported, r.name, r.why))
			}
		}
	}
	return out
}

// impurities lists what a file does that its arguments should do.
func impurities(f file) []string {
	var out []string
	names := map[string]string{} // local name -> import path
	for _, spec := range f.syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(imported)
		if name == "v2" {
			name = path.Base(path.Dir(imported))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." && impure[imported] != nil {
			out = append(out, f.name+" imports all names of "+imported)
		}
		names[name] = imported
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, f.name+" has a go statement")
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
				if _, ok := n.Args[0].(*ast.FuncLit); ok {
					out = append(out, f.name+" starts a goroutine through a Go method")
				}
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if what := impure[names[x.Name]][n.Sel.Name]; what != "" {
					out = append(out, fmt.Sprintf("%s uses %s.%s, which would %s", f.name, x.Name, n.Sel.Name, what))
				}
			}
		}
		return true
	})
	return out
}

func parse(t *testing.T, name, text string) file {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file{name: name, test: strings.HasSuffix(name, "_test.go"), syntax: syntax}
}

// packages lists the module's packages with all their files, those for other
// systems included.
func packages(t *testing.T) []source {
	t.Helper()
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	list := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,Doc", "./...")
	list.Dir = filepath.Dir(strings.TrimSpace(string(mod)))
	listed, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var out []source
	for dec := json.NewDecoder(bytes.NewReader(listed)); ; {
		var p struct{ ImportPath, Name, Dir, Doc string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		out = append(out, source{path: p.ImportPath, name: p.Name, dir: p.Dir, doc: p.Doc, files: files(t, p.Dir)})
	}
	if !slices.ContainsFunc(out, func(s source) bool { return s.path == "berth/broker" }) {
		t.Fatalf("go list found no berth/broker among %d packages", len(out))
	}
	return out
}

func files(t *testing.T, dir string) []file {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []file
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, parse(t, e.Name(), string(text)))
	}
	return out
}
