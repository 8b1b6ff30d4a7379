# Everything here needs Go and nothing else; `make test` uses the race detector
# when it finds a C compiler, `.ci/run` insists on it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

GO ?= go
PKG ?= ./...
FUZZTIME ?= 20s
CRASH_ROUNDS ?= 100
TEST_TIMEOUT ?= 15m
BENCH_FLAGS ?=
SOAK_TIME ?= 60s
SOAK_FLAGS ?=
CONFORMANCE_FLAGS ?=
CATALOGS_FLAGS ?=
GOVULNCHECK ?= v1.9.0

# The tests of whole brokers over fakes of resmon, by their names.
RESMON_TESTS := $(shell grep -hoE '^func Test[A-Za-z0-9_]+' cmd/berth/resmon_*_test.go | sed 's/func /^/; s/$$/$$/' | paste -sd'|')

CC_FOUND := $(shell command -v $$($(GO) env CC 2>/dev/null) 2>/dev/null)

.PHONY: build test test-resmon test-browser chromium lint vuln fuzz demo demo-dispatch crash bench soak conformance test-real catalogs generate clean help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

build: ## build bin/berth
	$(GO) build -trimpath -o bin/berth ./cmd/berth

# Without a C compiler the tests run as well, only less strictly; the first
# line says which it is. REQUIRE_RACE=1 makes a missing compiler an error.
test: ## all tests, with the race detector where a C compiler is found
ifneq ($(CC_FOUND),)
	@echo "race detector: on ($(CC_FOUND))"
	CGO_ENABLED=1 $(GO) test -race -timeout $(TEST_TIMEOUT) $(PKG)
else
	@echo "race detector: off (no C compiler found)"
	@if [ -n "$(REQUIRE_RACE)" ]; then echo "REQUIRE_RACE is set: install a C compiler (gcc or clang)" >&2; exit 1; fi
	CGO_ENABLED=0 $(GO) test -timeout $(TEST_TIMEOUT) $(PKG)
endif

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(find . -name '*.go' -not -path '*/node_modules/*' -not -path './.git/*' -print0 | xargs -0 "$$($(GO) env GOROOT)/bin/gofmt" -l); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(PKG)
	$(GO) tool staticcheck $(PKG)

test-resmon: ## the resmon surface: adapter, fake, and whole brokers over it
	$(GO) test $(if $(CC_FOUND),-race) -count=1 -timeout $(TEST_TIMEOUT) ./transport/app/... ./broker/catalog ./broker/policy ./broker/config
	$(GO) test $(if $(CC_FOUND),-race) -count=1 -timeout $(TEST_TIMEOUT) -run 'Surface|Follow|Work|Brings?|Bounded|Hold|Keyed' ./actors ./transport/mcpserver
	$(GO) test $(if $(CC_FOUND),-race) -count=1 -timeout $(TEST_TIMEOUT) -run '$(RESMON_TESTS)' ./cmd/berth

# Screenshots of every page stay in .artifacts/dashboard, which git ignores.
test-browser: chromium ## the dashboard in a real Chromium, which it installs where it may
	BERTH_REQUIRE_BROWSER=1 $(GO) test -count=1 -timeout $(TEST_TIMEOUT) -run Browser ./transport/dashboard ./cmd/berth

chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	  echo "There is no Chromium on the PATH, and only root installs one: apt-get install chromium (or your system's package); nothing was tested." >&2; exit 1; fi; \
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium

generate: ## write what is generated: docs/configuration.md
	$(GO) generate ./...

fuzz: ## every fuzz target for FUZZTIME (20s)
	@grep -rlE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . | sort | while read -r file; do \
	  for target in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"); do \
	    echo "== $$target in $$(dirname "$$file")"; \
	    $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; \
	  done; \
	done

vuln: ## known vulnerabilities in what is built, where their database can be reached
	@GOBIN=$(CURDIR)/bin $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) || { echo "govulncheck: skipped, it could not be installed"; exit 0; }; \
	rc=0; out=$$(timeout 300 bin/govulncheck ./... 2>&1) || rc=$$?; \
	case $$rc in 0) echo "govulncheck: nothing known" ;; 3) echo "$$out"; exit 1 ;; \
	*) echo "govulncheck: skipped, its database could not be reached" ;; esac

demo: ## one readable proof: a flood, a job, kill -9, restart (needs only Go)
	$(GO) run ./cmd/berth-demo

demo-dispatch: ## missions on a real repository: a diff, a search, kill -9, restart (needs Go and git)
	$(GO) run ./cmd/berth-demo -dispatch

crash: ## the crash suite, CRASH_ROUNDS (100) rounds
	BERTH_CRASH_ROUNDS=$(CRASH_ROUNDS) $(GO) test -count=1 -timeout 60m -run Crash ./cmd/berth/...

bench: ## measure Berth against a bare proxy, its backends and the disk (BENCH_FLAGS=-quick: a rough look)
	$(GO) run ./cmd/berth-bench $(BENCH_FLAGS)

soak: ## 500 sessions of 50 principals with a hostile one, memory, a start over a million records (SOAK_TIME=60s a load; SOAK_FLAGS="-only load")
	$(GO) run ./cmd/berth-bench -soak $(SOAK_TIME) $(SOAK_FLAGS)

# The suite comes from npm, in the version of test/conformance/package.json, and
# with it a Node where the machine's is older than the suite needs; the server
# that it is run against comes from the Go module proxy.
conformance: .conformance/installed ## the official suite, directly and through Berth (CONFORMANCE_FLAGS="--rounds 20 --only GLOB"; needs npm)
	$(GO) run ./cmd/berth-conformance --suite .conformance $(CONFORMANCE_FLAGS)

.conformance/installed: test/conformance/package.json test/conformance/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "make conformance needs npm on the PATH; nothing was tested." >&2; exit 1; }
	rm -rf .conformance && mkdir .conformance && cp $^ .conformance
	cd .conformance && npm ci --ignore-scripts --no-audit --no-fund --loglevel error \
	  $$(if [ "$$(node -p 'process.versions.node.split(".")[0]')" -ge 22 ]; then echo --omit=optional; fi)
	touch $@

# What is not ours comes from npm, in the versions of test/real/package.json,
# into .real, which git ignores (and Go, for its dot). No script of a package
# runs but the one that puts the Claude Code binary in its place.
test-real: ## against npm servers, client libraries and real agent CLIs (needs node; BERTH_REAL_LONG=1: six minutes more)
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "make test-real needs Node.js 20 or newer with npm on the PATH; nothing was tested." >&2; exit 1; }
	@$(MAKE) --no-print-directory build .real/installed
	$(GO) build -trimpath -o bin/berth-fixture ./cmd/berth-fixture
	BERTH_REAL=1 $(GO) test -count=1 -timeout 25m -v ./test/real

.real/installed: test/real/package.json test/real/package-lock.json
	rm -rf .real && mkdir .real && cp $^ .real
	cd .real && npm ci --ignore-scripts --no-audit --no-fund
	cd .real && node node_modules/@anthropic-ai/claude-code/install.cjs
	touch $@

# The lists of public servers that the catalog's tests search. No script of a
# package runs, and no server is asked for more than its list.
catalogs: .catalogs/installed ## check the captured lists against their servers (CATALOGS_FLAGS=-update writes them; needs npm)
	BERTH_CATALOGS=1 $(GO) test -count=1 -timeout 10m ./test/catalogs $(CATALOGS_FLAGS)

.catalogs/installed: test/catalogs/package.json test/catalogs/package-lock.json
	@command -v node >/dev/null && command -v npm >/dev/null || { echo "make catalogs needs Node.js 20 or newer with npm on the PATH; nothing was tested." >&2; exit 1; }
	rm -rf .catalogs && mkdir .catalogs && cp $^ .catalogs
	cd .catalogs && npm ci --ignore-scripts --no-audit --no-fund --loglevel error
	touch $@

clean: ## remove what was built
	rm -rf bin .real .conformance .catalogs .artifacts
