//go:build unix

package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// landedRefs holds a ref a branch: where Berth last landed. Who has a worktree
	// of the repository moves branches, and no branch says it therefore.
	landedRefs = "refs/berth/landed/"
	// landings is there once the repository keeps those. It names the empty tree.
	landings = "refs/berth/landings"
)

// AsOrigin is the repository as one that is its own origin: its branches say
// where they are, since people push to them.
func (r *Repo) AsOrigin() *Repo {
	as := *r
	as.origin = true
	return &as
}

// Landed gives where Berth last landed on a branch. ErrNoRef: nowhere yet.
func (r *Repo) Landed(ctx context.Context, branch string) (string, error) {
	if r.origin {
		return r.At(ctx, "refs/heads/"+branch)
	}
	return r.At(ctx, landedRefs+branch)
}

// Adopt has a repository keep where Berth lands. One that did not begins with
// what its branch says, since nothing in it tells a landing from anybody's
// commit. It is called before a worktree is given away.
func (r *Repo) Adopt(ctx context.Context, branch string) error {
	if _, err := os.Lstat(filepath.Join(r.dir, filepath.FromSlash(landings))); err == nil || r.origin {
		return nil
	}
	if err := CheckRef(branch); err != nil {
		return err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	_, err = r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", landings)
	var failed *Error
	if err == nil || !errors.As(err, &failed) || failed.Detail != "" {
		return err
	}
	var changes []string
	at, err := r.At(ctx, "refs/heads/"+branch)
	if err != nil && !errors.Is(err, ErrNoRef) {
		return err
	}
	if err == nil {
		_, err := r.At(ctx, landedRefs+branch)
		if errors.Is(err, ErrNoRef) {
			changes = append(changes, "create "+landedRefs+branch+" "+at)
		}
	}
	return r.keepLandings(ctx, changes...)
}

// keepLandings marks the repository as one that keeps where Berth lands.
func (r *Repo) keepLandings(ctx context.Context, changes ...string) error {
	tree, err := r.run(ctx, "hash-object", "-t", "tree", "-w", os.DevNull)
	if err != nil {
		return err
	}
	return r.change(ctx, "berth: keep where missions land", append(changes, "create "+landings+" "+strings.TrimSpace(tree))...)
}

// change makes changes of refs in one transaction, each only where the ref is
// what the change says. git writes them one after the other in this order; one
// that is killed has made the first of them.
func (r *Repo) change(ctx context.Context, why string, changes ...string) error {
	input := bytes.NewBufferString(strings.Join(changes, "\n") + "\n")
	return r.pipe(ctx, r.git.opts.Limit, input, func(out *bufio.Reader) error {
		_, err := io.Copy(io.Discard, out)
		return err
	}, "update-ref", "--no-deref", "-m", why, "--stdin")
}

// tip is At for a branch that somebody may have made another name of one that is
// not there; such a name goes.
func (r *Repo) tip(ctx context.Context, head string) (string, error) {
	at, err := r.At(ctx, head)
	if err == nil {
		return at, nil
	}
	if _, symbolic := r.run(ctx, "symbolic-ref", "--quiet", head); symbolic != nil {
		return "", err
	}
	if _, err := r.run(ctx, "symbolic-ref", "--delete", head); err != nil {
		return "", err
	}
	return "", fmt.Errorf("%w: %s", ErrNoRef, head)
}

// settle sets a branch to a commit, after other changes in the same transaction.
// What stands on the branch and is neither in that commit nor at origin is kept
// as the branch that it names.
func (r *Repo) settle(ctx context.Context, branch, to, why string, changes ...string) (kept string, err error) {
	head := "refs/heads/" + branch
	at, err := r.tip(ctx, head)
	switch {
	case errors.Is(err, ErrNoRef):
		at = strings.Repeat("0", len(to)) // it must not be there
	case err != nil:
		return "", err
	default:
		if kept, changes, err = r.aside(ctx, branch, at, to, changes); err != nil {
			return "", err
		}
	}
	return kept, r.change(ctx, why, append(changes, "update "+head+" "+to+" "+at)...)
}

// aside puts before changes what keeps a commit that a branch is about to lose;
// an empty name: it loses none.
func (r *Repo) aside(ctx context.Context, branch, at, to string, changes []string) (string, []string, error) {
	in, err := r.Contains(ctx, to, at)
	if err == nil && !in {
		in, err = r.inOrigin(ctx, branch, at)
	}
	if err != nil || in {
		return "", changes, err
	}
	name := "berth/aside-" + at[:12]
	was, err := r.At(ctx, "refs/heads/"+name)
	switch {
	case errors.Is(err, ErrNoRef):
		return name, append([]string{"create refs/heads/" + name + " " + at}, changes...), nil
	case err == nil && was != at:
		return "", nil, fmt.Errorf("the branch %s is there with another commit than %s", name, at)
	}
	return name, changes, err
}

// inOrigin reports whether a commit is in the history of a branch of origin.
func (r *Repo) inOrigin(ctx context.Context, branch, commit string) (bool, error) {
	at, err := r.At(ctx, "refs/remotes/origin/"+branch)
	if errors.Is(err, ErrNoRef) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return r.Contains(ctx, at, commit)
}

// Straighten sets a branch of a repository of Berth's own back to where Berth
// landed, or to origin's when it landed nowhere, and names the branch as which
// the commits are kept that were made there; empty: there were none. Anybody
// else's repository is left as it is.
func (r *Repo) Straighten(ctx context.Context, branch string) (kept string, err error) {
	if !r.own() || r.origin {
		return "", nil
	}
	release, err := r.hold(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	const why = "berth: back to where missions landed"
	at, err := r.tip(ctx, "refs/heads/"+branch)
	there := err == nil
	if err != nil && !errors.Is(err, ErrNoRef) {
		return "", err
	}
	to, err := r.Landed(ctx, branch)
	if err == nil {
		if there && at == to {
			return "", nil
		}
		return r.settle(ctx, branch, to, why)
	}
	if !errors.Is(err, ErrNoRef) || !there {
		return "", ignore(err, ErrNoRef)
	}
	to, err = r.At(ctx, "refs/remotes/origin/"+branch)
	if err != nil {
		return "", ignore(err, ErrNoRef) // nowhere to set it to; nobody goes by it
	}
	if in, err := r.Contains(ctx, to, at); in || err != nil {
		return "", err
	}
	return r.settle(ctx, branch, to, why)
}

// ignore is err unless it is one that is expected.
func ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
