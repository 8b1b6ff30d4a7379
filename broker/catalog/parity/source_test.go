package parity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/broker/catalog"
)

// TestNoTextCountsVerbs is P7 over the source: a number of verbs in a text is
// right until the next verb. Tests and what tests are made of may count.
func TestNoTextCountsVerbs(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case "testdata", ".git", "test", "catalogtest", "resmontest", "node_modules":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					text = n.Value
				}
			case *ast.Comment:
				text = n.Text
			}
			for _, counted := range catalog.CountsVerbs(text) {
				t.Errorf("%s: %q", files.Position(n.Pos()), counted)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"cli.md", "configuration.md"} {
		raw, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, counted := range catalog.CountsVerbs(string(raw)) {
			t.Errorf("docs/%s: %q", page, counted)
		}
	}
}
