package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/broker"
)

func TestACredentialFileHoldsOneHeaderLineThatNobodyElseReads(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		mode    os.FileMode
		want    string // empty: refused
	}{
		"a token":           {"Authorization: Bearer abc\n", 0o600, "Authorization: Bearer abc"},
		"a session":         {"x-token:  abc", 0o400, "X-Token: abc"},
		"a key":             {"X-API-Key: a:b", 0o600, "X-Api-Key: a:b"},
		"others read":       {"X-Token: abc", 0o640, ""},
		"everybody reads":   {"X-Token: abc", 0o644, ""},
		"another header":    {"Cookie: abc", 0o600, ""},
		"two lines":         {"X-Token: abc\nX-Token: def", 0o600, ""},
		"a bare token":      {"abc", 0o600, ""},
		"nothing":           {"", 0o600, ""},
		"no value":          {"X-Token: ", 0o600, ""},
		"more than a line":  {"X-Token: " + strings.Repeat("a", maxCredentialFile), 0o600, ""},
		"a name in a name":  {"X-Token : abc", 0o600, ""},
		"control character": {"X-Token: a\x00b", 0o600, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "credential")
			must(t, os.WriteFile(path, []byte(tc.content), 0o600))
			must(t, os.Chmod(path, tc.mode))
			line, err := readCredentialFile(path)
			var refusal *broker.Refusal
			if line != tc.want || (tc.want == "") != (errors.As(err, &refusal) && refusal.Code == "credential_file_missing") {
				t.Errorf("%q, %v", line, err)
			}
			if refusal != nil && strings.Contains(string(refusal.JSON()), "abc") {
				t.Errorf("it tells %s", refusal.JSON())
			}
		})
	}
	var refusal *broker.Refusal
	for _, path := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		if _, err := readCredentialFile(path); !errors.As(err, &refusal) || refusal.Code != broker.CodeCredentialFile {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestTheBridgeAsksWithTheCredentialOfItsFile(t *testing.T) {
	t.Parallel()
	x := newTeam(t, map[string]any{})
	id, token := x.hire("ana", "--role", "user")
	file := filepath.Join(x.dir, "credential")
	must(t, os.WriteFile(file, []byte("Authorization: Bearer "+token+"\n"), 0o600))
	ask := func() string {
		_, out, _ := x.berthIn(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n", "stdio", "--profile", "full", "--credential-file", file)
		return out
	}
	if out := ask(); !strings.Contains(out, "fx__echo") {
		t.Errorf("%s", out)
	}
	must(t, os.Chmod(file, 0o644))
	if out := ask(); !strings.Contains(out, "credential_file_missing") || strings.Contains(out, "fx__echo") {
		t.Errorf("others can read it: %s", out)
	}
	must(t, os.Chmod(file, 0o600))
	if code, _, errOut := x.berth("token", "revoke", id); code != 0 {
		t.Fatal(errOut)
	}
	if out := ask(); !strings.Contains(out, "unauthorized") || strings.Contains(out, token) {
		t.Errorf("it is revoked: %s", out)
	}
	must(t, os.Remove(file))
	if out := ask(); !strings.Contains(out, "credential_file_missing") {
		t.Errorf("it is gone: %s", out)
	}
	x.silent(t)
}
