//go:build unix

package git

import (
	"context"
	"encoding/base64"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// tracked is how the branches of origin are kept. It is said at each fetch, since
// a clone that was not made here may be set up in another way.
const tracked = "+refs/heads/*:refs/remotes/origin/*"

// LocalPath is the directory that an address of a repository on this host leads
// to; empty: it is on another one.
func LocalPath(address string) string {
	if rest, ok := strings.CutPrefix(address, "file://"); ok {
		address = "/" + strings.TrimLeft(strings.TrimPrefix(rest, "localhost"), "/")
	}
	if filepath.IsAbs(address) {
		return filepath.Clean(address)
	}
	return ""
}

// plainAddress is an address as a repository's settings have it.
func plainAddress(address string) string {
	if dir := LocalPath(address); dir != "" {
		return dir
	}
	return address
}

// WithToken is the repository as one whose origin is at address and, when that is an https one,
// is asked with a token. The token is in the environment of git alone; a host
// that sends git on to another address gets no answer, since git would send the
// token there too. An empty token, or another kind of address, changes no more.
func (r *Repo) WithToken(address, token string) *Repo {
	with := *r
	with.address = plainAddress(address)
	u, err := url.Parse(address)
	if token == "" || err != nil || !strings.EqualFold(u.Scheme, "https") || u.Host == "" {
		return &with
	}
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
	with.hidden = []string{token, basic}
	with.env = configEnv(append(settings[:len(settings):len(settings)],
		[2]string{"http.https://" + u.Host + "/.extraHeader", "Authorization: Basic " + basic}, [2]string{"http.followRedirects", "false"}))
	return &with
}

// fetched is what became of the last fetch of a repository.
type fetched struct {
	address string
	began   time.Time
	failed  error
}

// Follow makes the repository a bare clone of address, or brings the one that is
// there up to date. stale says why it could not be brought up to date; it is as
// it was then. A fetch of another caller is shared when it began after this call,
// or not longer than age before it.
func (r *Repo) Follow(ctx context.Context, address string, age time.Duration) (stale, err error) {
	since := time.Now().Add(-age)
	address = plainAddress(address)
	with := *r
	with.address, r = address, &with
	if !r.there() {
		return nil, r.Clone(ctx, address)
	}
	release, err := r.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	r.git.mu.Lock()
	last := r.git.fetches[r.dir]
	r.git.mu.Unlock()
	if last.address == address && last.began.After(since) {
		return last.failed, nil
	}
	last = fetched{address: address, began: time.Now()}
	if !r.own() { // else it says so already
		if _, err := r.run(ctx, "config", "--local", "remote.origin.url", address); err != nil {
			return nil, err
		}
	}
	if last.failed = r.fetch(ctx); last.failed != nil && ctx.Err() != nil {
		return nil, last.failed
	}
	r.git.mu.Lock()
	r.git.fetches[r.dir] = last
	r.git.mu.Unlock()
	return last.failed, nil
}

// FetchFrom brings a branch of another repository on this host and gives its
// commit. It is kept under refs/berth, where it is nobody's branch.
func (r *Repo) FetchFrom(ctx context.Context, other *Repo, branch string) (string, error) {
	if err := CheckRef(branch); err != nil {
		return "", err
	}
	release, err := r.hold(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	ref := "refs/berth/work/" + branch
	if _, err := r.git.run(ctx, r.git.opts.Network, r, "fetch", "--quiet", "--no-tags", "--no-auto-gc", "--end-of-options", other.dir, "+refs/heads/"+branch+":"+ref); err != nil {
		return "", err
	}
	return r.At(ctx, ref)
}
