package resmontest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// DeadPort is a port that nothing of a test can listen on: it needs privileges.
const DeadPort = 1

// FileState is what a port file or a token file may look like.
type FileState int

const (
	FileGood FileState = iota
	FileStale
	FileEmpty
	FileMalformed
	FileMissing
	FileShort
)

// SetPortFile puts the port file into a state. Stale names DeadPort, and leaves
// a token file for it, as a resmon that was killed there would have done.
func (f *Fake) SetPortFile(s FileState) error {
	port := strconv.Itoa(f.Port())
	content, known := map[FileState]string{
		FileGood: port, FileStale: strconv.Itoa(DeadPort), FileEmpty: "", FileMalformed: "127.0.0.1:" + port, FileShort: port[:1],
	}[s]
	switch {
	case s == FileMissing:
		return removed(f.PortFile())
	case !known:
		return fmt.Errorf("resmontest: a port file has no state %d", s)
	}
	if s == FileStale {
		if err := f.leaveToken(DeadPort); err != nil {
			return err
		}
	}
	return replaceFile(f.PortFile(), content)
}

// SetTokenFile puts the token file into a state. Stale holds a token of another run.
func (f *Fake) SetTokenFile(s FileState) error {
	stale, err := mintToken()
	if err != nil {
		return err
	}
	content, known := map[FileState]string{
		FileGood: f.Token(), FileStale: stale, FileEmpty: "", FileMalformed: strings.Repeat("not a token ", 4), FileShort: f.Token()[:42],
	}[s]
	switch {
	case s == FileMissing:
		return removed(f.TokenFile())
	case !known:
		return fmt.Errorf("resmontest: a token file has no state %d", s)
	}
	return replaceFile(f.TokenFile(), content)
}

func (f *Fake) leaveToken(port int) error {
	token, err := mintToken()
	if err != nil {
		return err
	}
	return replaceFile(f.tokenFile(port), token)
}

// RotateToken gives the running life another token, in its file too. The one
// that callers hold is refused from then on.
func (f *Fake) RotateToken() error {
	token, err := mintToken()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token, f.tokens = token, append(f.tokens, token)
	return replaceFile(f.tokenFile(f.port), token)
}

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
