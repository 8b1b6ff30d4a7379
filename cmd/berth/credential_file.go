package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"berth/broker"
)

// maxCredentialFile is more than any header line with a credential has, in bytes.
const maxCredentialFile = 4 << 10

// readCredentialFile gives the one header line of a file that nobody else can
// read. What is wrong with it is a refusal, which tells nothing of its content.
func readCredentialFile(path string) (line string, err error) {
	refuse := func(why string) (string, error) {
		return "", broker.Refuse(broker.CodeCredentialFile, "The credential file "+why+"; the request was not sent.", map[string]any{"path": path})
	}
	f, err := os.Open(path)
	if err != nil {
		return refuse("cannot be opened")
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return refuse("is no regular file")
	case info.Mode().Perm()&0o077 != 0:
		return refuse("can be read by others: run chmod 600 on it")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCredentialFile+1))
	if err != nil || len(data) > maxCredentialFile {
		return refuse("cannot be read, or is too long")
	}
	name, value, ok := strings.Cut(strings.TrimRight(string(data), "\r\n"), ":")
	value = strings.TrimSpace(value)
	name = http.CanonicalHeaderKey(name)
	if !ok || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) ||
		!slices.Contains([]string{"Authorization", "X-Token", "X-Api-Key"}, name) {
		return refuse("does not hold one line such as Authorization: Bearer TOKEN, X-Token: TOKEN or X-Api-Key: KEY")
	}
	return name + ": " + value, nil
}
