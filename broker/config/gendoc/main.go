// Command gendoc writes docs/configuration.md from the structs of package
// config: their tags give keys, types, defaults and ranges, their comments the
// meaning. It is run by go generate and refuses a key without a comment.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	source := flag.String("source", ".", "directory of package config")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if err := run(*source, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

func run(source, out string) error {
	text, err := render(source)
	if err != nil {
		return err
	}
	return os.WriteFile(out, text, 0o644)
}
