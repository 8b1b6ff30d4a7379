package architecture

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/broker"
)

const refusalsPage = "../docs/refusals.md"

// catalogued are the constants of broker/code.go, by name.
func catalogued(t *testing.T, all []source) map[string]broker.Code {
	t.Helper()
	out := map[string]broker.Code{}
	for _, f := range fileOf(t, all, "berth/broker", "code.go").syntax.Decls {
		for name, value := range stringConstants(f) {
			out[name] = broker.Code(value)
		}
	}
	return out
}

func fileOf(t *testing.T, all []source, pkg, name string) file {
	t.Helper()
	for _, s := range all {
		for _, f := range s.files {
			if s.path == pkg && f.name == name {
				return f
			}
		}
	}
	t.Fatalf("%s has no %s", pkg, name)
	return file{}
}

// stringConstants are the constants of a declaration that are string literals.
func stringConstants(decl ast.Decl) map[string]string {
	out := map[string]string{}
	d, ok := decl.(*ast.GenDecl)
	if !ok || d.Tok != token.CONST {
		return out
	}
	for _, spec := range d.Specs {
		spec := spec.(*ast.ValueSpec)
		for i, value := range spec.Values {
			if lit, ok := value.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					out[spec.Names[i].Name] = text
				}
			}
		}
	}
	return out
}

func TestEveryCodeIsUnique(t *testing.T) {
	constants := catalogued(t, packages(t))
	form := regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*$`)
	names := map[broker.Code]string{}
	for name, code := range constants {
		if other := names[code]; other != "" {
			t.Errorf("%s and %s are both %q", name, other, code)
		}
		names[code] = name
		if !form.MatchString(string(code)) {
			t.Errorf("%s is %q, which is no code", name, code)
		}
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, broker.Codes()) {
		t.Errorf("the constants are\n%q\nthe table of what they share has\n%q", got, broker.Codes())
	}
}

// row is one line of a table of docs/refusals.md whose first cell is a code.
type row struct {
	code  string
	cells []string // after the code
}

// tables gives the tables of codes of the page, in order.
func tables(page string) [][]row {
	var out [][]row
	inTable := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case !inTable:
			inTable = true
			if cells[0] == "code" {
				out = append(out, nil)
			}
		case len(out) > 0 && strings.HasPrefix(cells[0], "`"):
			last := &out[len(out)-1]
			*last = append(*last, row{strings.Trim(cells[0], "`"), cells[1:]})
		}
	}
	return out
}

func TestEveryCodeIsDocumented(t *testing.T) {
	page, err := os.ReadFile(refusalsPage)
	if err != nil {
		t.Fatal(err)
	}
	all := packages(t)
	written := func(pkg, name string, wanted func(string) bool) []string {
		var out []string
		for _, d := range fileOf(t, all, pkg, name).syntax.Decls {
			for constant, value := range stringConstants(d) {
				if wanted(constant) {
					out = append(out, value)
				}
			}
		}
		slices.Sort(out)
		return out
	}
	starts := func(prefix string) func(string) bool {
		return func(name string) bool { return strings.HasPrefix(name, prefix) }
	}
	var codes []string
	for _, c := range broker.Codes() {
		codes = append(codes, string(c))
	}
	want := []struct {
		what  string
		codes []string
		cells int
	}{
		{"the broker's codes", codes, 4},
		{"the codes of cmd/berth", written("berth/cmd/berth", "exit.go", starts("code")), 2},
		{"the registration refusals", written("berth/broker/catalog", "record.go", starts("Code")), 2},
		{"the faults of rules for proofs", written("berth/broker/policy/proof", "rules.go", starts("Fault")), 2},
	}
	got := tables(string(page))
	if len(got) != len(want) {
		t.Fatalf("%s has %d tables of codes, want %d", refusalsPage, len(got), len(want))
	}
	for i, w := range want {
		if len(w.codes) == 0 {
			t.Fatalf("%s: none were found", w.what)
		}
		var shown []string
		for _, r := range got[i] {
			shown = append(shown, r.code)
			if len(r.cells) != w.cells || slices.Contains(r.cells, "") {
				t.Errorf("%s: the row of %s has the cells %q", w.what, r.code, r.cells)
			}
			if i == 0 {
				retry := map[bool]string{true: "yes", false: "no"}[broker.Refuse(broker.Code(r.code), "", nil).Retryable]
				if r.cells[1] != retry {
					t.Errorf("the row of %s says %q to a retry, the code %q", r.code, r.cells[1], retry)
				}
			}
		}
		if !slices.Equal(shown, w.codes) {
			t.Errorf("%s: documented are\n%q\nthere are\n%q", w.what, shown, w.codes)
		}
	}
}

// forTests are packages of the module that exist for tests only.
var forTests = []string{"berth/journal/journaltest/...", "berth/architecture/..."}

func TestEveryCodeIsProduced(t *testing.T) {
	all := packages(t)
	produced := map[string]bool{}
	for _, s := range all {
		if within(s.path, forTests) || within(s.path, fixtures) {
			continue
		}
		for _, f := range s.files {
			if !f.test && (s.path != "berth/broker" || f.name != "code.go") {
				maps.Copy(produced, codesProduced(f, s.path == "berth/broker"))
			}
		}
	}
	for name, code := range catalogued(t, all) {
		if !produced[name] {
			t.Errorf("nothing produces %s (%s)", name, code)
		}
	}
}

// codesProduced lists the constants Code... that a file uses as a value. To
// compare with one, to switch on it or to look it up produces nothing.
func codesProduced(f file, inBroker bool) map[string]bool {
	out := map[string]bool{}
	var walk func(n ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, walk)
			return false
		case *ast.CaseClause:
			for _, s := range n.Body {
				ast.Inspect(s, walk)
			}
			return false
		case *ast.BinaryExpr:
			return n.Op != token.EQL && n.Op != token.NEQ
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "broker" && strings.HasPrefix(n.Sel.Name, "Code") {
				out[n.Sel.Name] = true
			}
		case *ast.Ident:
			if inBroker && strings.HasPrefix(n.Name, "Code") {
				out[n.Name] = true
			}
		}
		return true
	}
	ast.Inspect(f.syntax, walk)
	return out
}

func TestCodesProducedAreFound(t *testing.T) {
	tests := []struct {
		name, source string
		produced     bool
	}{
		{"in a refusal", "func f() { broker.Refuse(broker.CodeX, ``, nil) }", true},
		{"in a chain", "func f() { broker.Refuse(broker.CodeX, ``, nil).Retry(1) }", true},
		{"in a field", "var c = broker.JobChange{Reason: broker.CodeX}", true},
		{"as a value of a map", "var m = map[string]broker.Code{`a`: broker.CodeX}", true},
		{"in the body of a case", "func f(c broker.Code) broker.Code { switch c { case broker.CodeY: return broker.CodeX }; return c }", true},
		{"as a key of a map", "var m = map[broker.Code]int{broker.CodeX: 1}", false},
		{"in a comparison", "func f(c broker.Code) bool { return c == broker.CodeX || broker.CodeX != c }", false},
		{"in a case", "func f(c broker.Code) { switch c { case broker.CodeX: } }", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := parse(t, "p.go", "package p\nimport \"berth/broker\"\n"+tt.source)
			if got := codesProduced(f, false)["CodeX"]; got != tt.produced {
				t.Errorf("produced: %v", got)
			}
		})
	}
}

// TestEveryCodeIsShown asks that some test, transcript or script has the code:
// as its constant, as a whole literal, as the value of a field Code or Reason,
// or as the command line prints it.
func TestEveryCodeIsShown(t *testing.T) {
	all := packages(t)
	shown := map[broker.Code]bool{}
	codes := catalogued(t, all)
	var texts []string
	for _, s := range all {
		if s.path == "berth/architecture" || s.path == "berth/broker/config" { // the keys of the configuration have words of codes
			continue
		}
		for _, f := range s.files {
			if !f.test && !within(s.path, forTests) {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					if code, ok := codes[n.Name]; ok {
						shown[code] = true
					}
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						shown[broker.Code(text)] = true
						texts = append(texts, text)
					}
				}
				return true
			})
		}
		texts = append(texts, testdata(t, s.dir)...)
	}
	everything := strings.ToLower(strings.Join(texts, "\n"))
	for _, code := range codes {
		field := regexp.MustCompile(`(code|reason)\\*" ?: ?\\*"` + string(code) + `\\*"`)
		if !shown[code] && !field.MatchString(everything) && !strings.Contains(everything, "("+string(code)+")") {
			t.Errorf("no test shows %s", code)
		}
	}
}

// testdata reads the text files of a package's testdata.
func testdata(t *testing.T, dir string) []string {
	t.Helper()
	root := filepath.Join(dir, "testdata")
	if _, err := os.Stat(root); err != nil {
		return nil
	}
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".txtar", ".txt", ".json", ".golden"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		out = append(out, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
