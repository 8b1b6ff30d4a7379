package rest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestStatusesOfCodesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/refusals.md")
	if err != nil {
		t.Fatal(err)
	}
	for code, status := range statuses {
		row := ""
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, "| `"+string(code)+"` |") {
				row = line
			}
		}
		if !strings.Contains(row, fmt.Sprintf("HTTP %d", status)) {
			t.Errorf("%s is answered with HTTP %d; docs/refusals.md has %q", code, status, row)
		}
	}
}
