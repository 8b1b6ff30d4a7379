//go:build unix

package codeindex

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/broker/native/codeindex"
	"berth/transport/git"
)

const (
	maxReaders  = 4
	openLimit   = 10 * time.Second
	searchLimit = 10 * time.Second
)

// Options of an engine; Root, Repos and Git are required.
type Options struct {
	Root  string // the indexes, one directory a vessel
	Repos string // the bare clones, <vessel>.git
	Git   *git.Git
	// Token gives what a vessel's repository is asked with over https; nil, or
	// an empty one: nothing.
	Token func(vesselID string) string
	// MaxFile is the largest file that is indexed, in bytes; MaxFiles is how many
	// files are. Zero is 1 MiB and 1,000,000.
	MaxFile  int64
	MaxFiles int
}

// Engine keeps indexes.
type Engine struct {
	opts Options

	mu      sync.Mutex
	readers map[string]*reader   // by vessel
	updates map[string]*updating // by vessel
}

type updating struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New makes an engine and removes what a stop in the middle of an update left.
func New(o Options) (*Engine, error) {
	if o.MaxFile <= 0 {
		o.MaxFile = 1 << 20
	}
	if o.MaxFiles <= 0 {
		o.MaxFiles = 1_000_000
	}
	left, err := filepath.Glob(filepath.Join(o.Root, "*", unready+"*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		return nil, fmt.Errorf("clear away an update that broke off: %w", err)
	}
	return &Engine{opts: o, readers: map[string]*reader{}, updates: map[string]*updating{}}, nil
}

// Close closes what is open once nobody reads it. Updates must have ended.
func (e *Engine) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, r := range e.readers {
		delete(e.readers, id)
		r.gone = true
		e.drop(r)
	}
}

// Drop ends an update of a vessel and removes its index and its clone.
func (e *Engine) Drop(ctx context.Context, vesselID string) error {
	if filepath.Base(vesselID) != vesselID || strings.HasPrefix(vesselID, ".") {
		return fmt.Errorf("%q names no vessel", vesselID)
	}
	e.mu.Lock()
	u := e.updates[vesselID]
	e.mu.Unlock()
	if u != nil {
		u.cancel()
		select {
		case <-u.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.retire(vesselID)
	return errors.Join(os.RemoveAll(e.dir(vesselID)), os.RemoveAll(e.clone(vesselID)), os.RemoveAll(e.clone(vesselID)+".new"))
}

func (e *Engine) clone(vesselID string) string { return filepath.Join(e.opts.Repos, vesselID+".git") }

// Current gives the commit of the branch: in the repository itself when it is on
// this host, else as it was last fetched.
func (e *Engine) Current(ctx context.Context, from codeindex.Source) (string, error) {
	if dir := git.LocalPath(from.URL); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "", err
		}
		return e.opts.Git.Repo(dir).At(ctx, "refs/heads/"+from.Branch)
	}
	if _, err := os.Stat(e.clone(from.VesselID)); err != nil {
		return "", err
	}
	// An index of another address stays as it is until an update, and the clone may.
	if r, release, err := e.acquire(from.VesselID); err == nil {
		defer release()
		if r.meta.URL != digest(from.URL) {
			return "", errElsewhere
		}
	}
	return e.opts.Git.Repo(e.clone(from.VesselID)).At(ctx, "refs/remotes/origin/"+from.Branch)
}

// errElsewhere is a branch that is not known, because the index is of another
// repository.
var errElsewhere = errors.New("nothing was fetched from this address yet")

// digest names an address, which may hold a credential.
func digest(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:16])
}
