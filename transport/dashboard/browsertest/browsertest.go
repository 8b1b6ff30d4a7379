// Package browsertest drives a real Chromium for the tests of the dashboard.
//
// It owns the browser that it starts, with an empty profile of its own, and
// ends it with the test. A machine without Chromium skips, and says how to get
// one. A [Page] keeps what went wrong while it was open: requests to another
// host, messages of the console, violations of the policy, exceptions, dialogs.
// A browser may be used by several goroutines, a page by one.
package browsertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long a page may be used before it counts as hanging.
const patience = 4 * time.Minute

// names are what a Chromium is called.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Browser is a running Chromium.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Open starts a Chromium, or skips the test.
func Open(t testing.TB) *Browser {
	t.Helper()
	var binary string
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			binary = found
			break
		}
	}
	if binary == "" {
		if os.Getenv("BERTH_REQUIRE_BROWSER") != "" {
			t.Fatal("BERTH_REQUIRE_BROWSER is set and there is no Chromium")
		}
		t.Skip("there is no Chromium on the PATH: make test-browser installs it, or apt-get install chromium")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(binary), chromedp.UserDataDir(t.TempDir()), chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.WindowSize(1360, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("no-default-browser-check", true),
		// The tests listen on this machine: no other name is to be looked up.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	parent, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(parent)
	if err := chromedp.Do(ctx); err != nil {
		end()
		endAllocator()
		t.Fatalf("start %s: %v", binary, err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("end the browser: %v", err)
		}
		end()
		endAllocator()
	})
	return &Browser{t: t, ctx: ctx}
}

// Options are how a page is looked at; the zero value is a desk in daylight.
type Options struct {
	Width, Height int  // of the view, in CSS pixels; zero is 1360 by 900
	Dark          bool // the person prefers dark pages
	NoScript      bool // scripts do not run
}

// Page is a tab with a cookie jar of its own.
type Page struct {
	t    testing.TB
	ctx  context.Context
	host string

	mu       sync.Mutex
	problems []string
}

// Page opens a tab for the site at base.
func (b *Browser) Page(t testing.TB, base string, o Options) *Page {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(func() { cancel(); end() })
	p := &Page{t: t, ctx: ctx, host: u.Host}
	p.Do(chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		if _, err := cdp.Call(ctx, s, log.Enable, cdp.Empty{}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, s, network.Enable, network.EnableParams{})
		return err
	}))
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	if o.Width == 0 {
		o.Width, o.Height = 1360, 900
	}
	p.View(o)
	return p
}

// View changes how the page is looked at.
func (p *Page) View(o Options) {
	p.t.Helper()
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	p.Do(chromedp.EmulateViewport(int64(o.Width), int64(o.Height)), chromedp.Func(func(ctx context.Context, s *chromedp.Target) error {
		_, err := cdp.Call(ctx, s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		if err == nil {
			_, err = cdp.Call(ctx, s, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: o.NoScript})
		}
		return err
	}))
}

func (p *Page) hear(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Host != p.host {
			p.problem("a request to " + e.Request.URL)
		}
	case *log.EventEntryAdded:
		if e.Entry.Source != "network" { // a refused page is a message there, and no fault
			p.problem(fmt.Sprintf("log: %s: %s", e.Entry.Source, e.Entry.Text))
		}
	case *runtime.EventConsoleAPICalled:
		p.problem(fmt.Sprintf("console.%s was called", e.Type))
	case *runtime.EventExceptionThrown:
		p.problem("an exception: " + e.ExceptionDetails.Text)
	case *page.EventJavascriptDialogOpening:
		p.problem("a dialog: " + e.Message)
	}
}

func (p *Page) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// Clean fails the test when anything went wrong while the page was open.
func (p *Page) Clean() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.problems {
		p.t.Error(text)
	}
	p.problems = nil
}

// Do runs steps, or ends the test.
func (p *Page) Do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// Go loads a page and gives the status of the answer.
func (p *Page) Go(address string) int {
	p.t.Helper()
	answer, err := chromedp.RunResponse(p.ctx, chromedp.Navigate(address))
	if err != nil {
		p.t.Fatal(err)
	}
	return int(answer.Status)
}

// Click clicks what a selector finds and waits for the page that this loads.
func (p *Page) Click(selector string) {
	p.t.Helper()
	if _, err := chromedp.RunResponse(p.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		p.t.Fatal(err)
	}
}

// Type types into a field.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.Do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Await waits until an expression is true.
func (p *Page) Await(expression string) {
	p.t.Helper()
	for try := 1; ; try++ {
		_, err := chromedp.Run(p.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond)))
		if err == nil {
			return
		}
		// A page that is loaded meanwhile takes its predecessor's context along.
		if try == 3 || !strings.Contains(err.Error(), "Cannot find context") {
			p.t.Fatalf("wait for %s: %v", expression, err)
		}
	}
}

// Eval gives the value of an expression.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("evaluate: %v", err)
	}
	return v
}

// Text is the text of what a selector finds, as a person sees it.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		p.t.Fatalf("read %s: %v", selector, err)
	}
	return v
}

// Shot writes a screenshot of the whole page into .artifacts of the module,
// which git ignores.
func (p *Page) Shot(name string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	dir := filepath.Join(filepath.Dir(string(mod)), ".artifacts", "dashboard")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
