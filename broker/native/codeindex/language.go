package codeindex

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Language is what is known of the files of one language.
type Language struct {
	Name    string
	comment []string       // how a line begins that speaks of the line below it
	define  *regexp.Regexp // the first group that is not empty is the name; nil: nothing is known
}

const word = `([A-Za-z_$][\w$]*)`

var (
	slashes = []string{"//", "/*", "*", "@"}
	hashes  = []string{"#", "@"}

	golang   = &Language{Name: "go", comment: []string{"//"}}
	plain    = &Language{Name: "text"}
	python   = &Language{Name: "python", comment: hashes, define: regexp.MustCompile(`^\s*(?:async\s+)?(?:def|class)\s+` + word + `|^([A-Z][A-Z0-9_]+)\s*(?::[^=]+)?=`)}
	script   = &Language{Name: "javascript", comment: slashes, define: scripts}
	typed    = &Language{Name: "typescript", comment: slashes, define: scripts}
	scripts  = regexp.MustCompile(`^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|interface|enum|namespace)\s+` + word + `|^(?:export\s+)?(?:const|let|var|type)\s+` + word + `|^\s+(?:(?:public|private|protected|static|async|get|set|readonly)\s+)*` + word + `\([^;]*\)[^;=]*\{\s*$`)
	rust     = &Language{Name: "rust", comment: []string{"//", "#["}, define: regexp.MustCompile(`^\s*(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+(?:"[^"]*"\s+)?)*(?:fn|struct|enum|union|trait|type|mod|static|const|macro_rules!)\s+(?:mut\s+)?` + word)}
	java     = &Language{Name: "java", comment: slashes, define: curly}
	sharp    = &Language{Name: "csharp", comment: []string{"//", "["}, define: curly}
	kotlin   = &Language{Name: "kotlin", comment: slashes, define: regexp.MustCompile(`^\s*(?:[a-z]+\s+)*(?:fun|class|interface|object|typealias|val|var)\s+(?:<[^>]*>\s*)?(?:[\w.]+\.)?` + word)}
	swift    = &Language{Name: "swift", comment: slashes, define: regexp.MustCompile(`^\s*(?:[a-z]+\s+)*(?:func|class|struct|enum|protocol|extension|typealias)\s+` + word)}
	scala    = &Language{Name: "scala", comment: slashes, define: regexp.MustCompile(`^\s*(?:[a-z]+\s+)*(?:def|class|object|trait|type|val)\s+` + word)}
	curly    = regexp.MustCompile(`^\s*(?:[a-z]+\s+)*(?:class|interface|enum|record|struct|@interface)\s+` + word + `|^\s+(?:(?:public|private|protected|internal|static|final|abstract|override|virtual|async|sealed|synchronized|native|default)\s+)+[\w<>\[\],.? ]+\s+` + word + `\s*\(`)
	clang    = &Language{Name: "c", comment: slashes, define: braces}
	plusplus = &Language{Name: "cpp", comment: slashes, define: braces}
	braces   = regexp.MustCompile(`^\s*#\s*define\s+` + word + `|^(?:typedef\s+)?(?:template\s*<[^>]*>\s*)?(?:struct|class|enum(?:\s+class)?|union|namespace)\s+` + word + `\s*(?:[:{]|final|$)|^(?:[A-Za-z_][\w:<>,*&\s]*[\s*&])?(?:[\w:~]+::)?` + word + `\s*\([^;]*$`)
	ruby     = &Language{Name: "ruby", comment: []string{"#"}, define: regexp.MustCompile(`^\s*(?:def\s+(?:self\.)?|class\s+|module\s+)(?:[\w:]+::)?` + word)}
	php      = &Language{Name: "php", comment: slashes, define: regexp.MustCompile(`^\s*(?:[a-z]+\s+)*(?:function\s+&?|class\s+|interface\s+|trait\s+|enum\s+)` + word)}
	shell    = &Language{Name: "shell", comment: []string{"#"}, define: regexp.MustCompile(`^\s*(?:function\s+)?` + word + `\s*\(\)|^function\s+` + word)}
	sql      = &Language{Name: "sql", comment: []string{"--"}, define: regexp.MustCompile(`(?i)^\s*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:unique\s+)?(?:virtual\s+)?(?:table|view|index|function|procedure|trigger|type)\s+(?:if\s+not\s+exists\s+)?(?:\w+\.)?` + word)}
	lua      = &Language{Name: "lua", comment: []string{"--"}, define: regexp.MustCompile(`^\s*(?:local\s+)?function\s+(?:[\w.]+[.:])?` + word)}
	perl     = &Language{Name: "perl", comment: []string{"#"}, define: regexp.MustCompile(`^\s*(?:sub|package)\s+(?:[\w:]+::)?` + word)}
	elixir   = &Language{Name: "elixir", comment: hashes, define: regexp.MustCompile(`^\s*(?:defp?|defmodule|defmacro)\s+(?:[\w.]+\.)?` + word)}
	proto    = &Language{Name: "protobuf", comment: slashes, define: regexp.MustCompile(`^\s*(?:message|service|enum|rpc)\s+` + word)}
	assembly = &Language{Name: "assembly", comment: []string{"//", ";", "#"}, define: regexp.MustCompile(`^(?:TEXT|DATA|GLOBL)\s+(?:\w*·)?` + word + `|^([A-Za-z_]\w*):`)}
	markdown = &Language{Name: "markdown"}

	makefile   = &Language{Name: "makefile"}
	dockerfile = &Language{Name: "dockerfile"}
)

// languages are known by the end of a file's name.
var languages = map[string]*Language{
	".go": golang, ".py": python, ".pyi": python, ".js": script, ".jsx": script, ".mjs": script, ".cjs": script, ".ts": typed, ".tsx": typed, ".mts": typed,
	".rs": rust, ".java": java, ".cs": sharp, ".kt": kotlin, ".kts": kotlin, ".swift": swift, ".scala": scala, ".c": clang, ".h": clang, ".m": clang,
	".cc": plusplus, ".cpp": plusplus, ".cxx": plusplus, ".hpp": plusplus, ".hh": plusplus, ".rb": ruby, ".php": php, ".sh": shell, ".bash": shell, ".zsh": shell,
	".sql": sql, ".lua": lua, ".pl": perl, ".pm": perl, ".ex": elixir, ".exs": elixir, ".proto": proto, ".s": assembly, ".asm": assembly, ".md": markdown, ".markdown": markdown,
	".json": {Name: "json"}, ".yaml": {Name: "yaml"}, ".yml": {Name: "yaml"}, ".toml": {Name: "toml"}, ".xml": {Name: "xml"}, ".html": {Name: "html"}, ".htm": {Name: "html"},
	".css": {Name: "css"}, ".scss": {Name: "css"}, ".vue": {Name: "vue"}, ".dart": {Name: "dart", comment: slashes, define: curly}, ".tf": {Name: "terraform"}, ".ini": {Name: "ini"}, ".cfg": {Name: "ini"},
}

// Languages are the names of all languages, sorted.
var Languages = sync.OnceValue(func() []string {
	names := []string{plain.Name, makefile.Name, dockerfile.Name}
	for _, l := range languages {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
})

// LanguageOf tells the language by a file's name.
func LanguageOf(name string) *Language {
	if l, ok := languages[strings.ToLower(path.Ext(name))]; ok {
		return l
	}
	switch base := strings.ToLower(path.Base(name)); {
	case base == "makefile" || base == "gnumakefile":
		return makefile
	case strings.HasPrefix(base, "dockerfile"):
		return dockerfile
	}
	return plain
}

func (l *Language) comments(line string) bool {
	line = strings.TrimLeft(line, " \t")
	for _, c := range l.comment {
		if strings.HasPrefix(line, c) {
			return true
		}
	}
	return false
}

// maxDefining is how long a line may be that defines something, in bytes.
const maxDefining = 400

// definer gives a function that is shown the lines of a file, one after the
// other, and gives the name that a line defines, or none.
func (l *Language) definer() func(line string) string {
	if l == golang {
		return new(goLines).defines
	}
	if l.define == nil {
		return func(string) string { return "" }
	}
	return func(line string) string {
		if line == "" || len(line) > maxDefining {
			return ""
		}
		found := l.define.FindStringSubmatch(line)
		for i := 1; i < len(found); i++ {
			if found[i] != "" && !keywords[found[i]] {
				return found[i]
			}
		}
		return ""
	}
}

// keywords are words that stand where a name could.
var keywords = map[string]bool{"if": true, "for": true, "while": true, "switch": true, "return": true, "catch": true, "else": true, "do": true, "sizeof": true, "constructor": true}

// goLines finds the definitions of Go at the outermost level, those in the
// parentheses of const, var and type included.
type goLines struct{ group bool }

func (g *goLines) defines(line string) string {
	if line == "" || len(line) > maxDefining {
		return ""
	}
	if g.group {
		if line[0] == ')' {
			g.group = false
			return ""
		}
		if line[0] != '\t' {
			return ""
		}
		return leading(line[1:])
	}
	for _, keyword := range [...]string{"func ", "type ", "var ", "const "} {
		rest, ok := strings.CutPrefix(line, keyword)
		if !ok {
			continue
		}
		if keyword != "func " && strings.HasPrefix(rest, "(") {
			g.group = !strings.HasSuffix(strings.TrimSpace(rest), ")")
			return ""
		}
		if strings.HasPrefix(rest, "(") {
			_, rest, ok = strings.Cut(rest, ") ")
			if !ok {
				return ""
			}
		}
		return leading(rest)
	}
	return ""
}

// leading is the name that a text begins with.
func leading(text string) string {
	n := 0
	for n < len(text) && (text[n] == '_' || text[n] >= 0x80 || text[n] >= 'a' && text[n] <= 'z' || text[n] >= 'A' && text[n] <= 'Z' || n > 0 && text[n] >= '0' && text[n] <= '9') {
		n++
	}
	if n < minTerm {
		return ""
	}
	return text[:n]
}

// apart are directories of what a project did not write, or does not run.
var apart = map[string]bool{"vendor": true, "third_party": true, "node_modules": true, "testdata": true, "fixtures": true, "dist": true, "bower_components": true}

// generated is how a file says that it was not written.
var generated = regexp.MustCompile(`(?m)^(?://|#|/\*|--|;).*(?:Code generated .* DO NOT EDIT|@generated)`)

// ReferenceOnly reports whether a file is worth a look and no more: what stands
// in a directory of others' code or of test data, and what a program wrote.
func ReferenceOnly(name, content string) bool {
	for dir := range strings.SplitSeq(path.Dir(name), "/") {
		if apart[dir] {
			return true
		}
	}
	return generated.MatchString(content[:min(len(content), 2048)])
}

// TestFile reports whether a file holds tests, by its name.
func TestFile(name string) bool {
	base := path.Base(name)
	stem := strings.TrimSuffix(base, path.Ext(base))
	return strings.HasSuffix(stem, "_test") || strings.HasPrefix(base, "test_") || strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, ".spec") || strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests")
}
