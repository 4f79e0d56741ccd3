# The project's commands; `make` alone lists them. Recipes run one after another, so that a log reads top-down
# and two cargo processes never wait for each other's lock.
.NOTPARALLEL:
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

TARGET := $(or $(CARGO_TARGET_DIR),target)
MIDAS := $(TARGET)/release/midas
TOOLS := $(CURDIR)/target/tools
SKIPPED := $(TOOLS)/skipped
export PATH := $(TOOLS)/bin:$(PATH)

# Where `make install` puts things; DESTDIR is for those who build packages.
PREFIX := /usr/local
SYSCONFDIR := /etc
DESTDIR :=
BINDIR := $(PREFIX)/bin
DOCDIR := $(PREFIX)/share/doc/midas
UNIT := $(PREFIX)/lib/systemd/system/midas.service
SYSUSERS := $(PREFIX)/lib/sysusers.d/midas.conf
EXAMPLE := $(SYSCONFDIR)/midas/midas.toml.example
DOCUMENTS := operating.md metrics.md LICENSE prometheus/midas.rules.yml prometheus/prometheus.yml grafana/midas.json
MANDIR := $(PREFIX)/share/man
# Where each shell looks for what it completes.
BASH_COMPLETION := $(PREFIX)/share/bash-completion/completions/midas
ZSH_COMPLETION := $(PREFIX)/share/zsh/site-functions/_midas
FISH_COMPLETION := $(PREFIX)/share/fish/vendor_completions.d/midas.fish

# cargo-nextest is quicker and isolates tests; cargo test runs the same ones.
NEXTEST := $(shell cargo nextest --version 2>/dev/null)
RUN_TESTS := $(if $(NEXTEST),cargo nextest run,cargo test)
# Optimised, but linked quickly: see Cargo.toml.
PROVE := $(if $(NEXTEST),--cargo-profile,--profile) prove
# With nextest `make test` builds every test at once and runs them in two goes: what is built by itself is built with other features, anew.
UNIT_TESTS = --workspace --exclude midas-cli --lib --bins --tests
PROOFS := $(if $(NEXTEST),--workspace -E 'package(midas-cli)',-p midas-cli)

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{ printf "make %-12s %s\n", $$1, $$2 }'

.PHONY: check
check: fmt lint doc unit short smoke ## Format, lints, docs, unit tests, a short simulation (under 3 minutes)

.PHONY: test
# All of it with one build: what is checked at run time only in a build for debugging is in `make check`.
test: UNIT_BUILD := $(PROVE)
test: UNIT_TESTS := $(if $(NEXTEST),--workspace -E 'not package(midas-cli)',$(UNIT_TESTS))
test: SMOKE_BUILD := $(if $(NEXTEST),true)
test: setup web-count fmt lint doc unit smoke deny prove ## Everything that proves the project (35 minutes on two cores, installs what it needs)
	@echo "make test: passed, $$(wc -l < $(SKIPPED)) skipped"

.PHONY: setup
setup: ## Install what `make test` needs: tools under target/tools, the lab's Debian packages
	@scripts/setup test

.PHONY: fmt
fmt: ## Check the format
	cargo fmt --all --check

.PHONY: lint
lint: ## Run clippy; warnings are errors
	cargo clippy --workspace --all-targets -- -D warnings

.PHONY: doc
doc: ## Build the API documentation; warnings are errors
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace

# The command's own tests are among the proofs.
.PHONY: unit
unit: ## Run the unit tests
	$(RUN_TESTS) $(UNIT_BUILD) $(UNIT_TESTS)

.PHONY: short
short: ## Run the command's short tests, the tidy test and the digests, in a build for debugging
	$(RUN_TESTS) -p midas-cli --bins --test tidy --test digest

# `cargo build` takes the page in where it is, and never makes it.
.PHONY: web
web: ## Build the dashboard's page from locked npm packages (needs node and the network, once); then `make build` takes it in
	@scripts/web

# Where Node is: without it the dashboard's address says how to get the page.
.PHONY: web-try
web-try:
	@scripts/web --try

# The same, and what is not built is skipped.
.PHONY: web-count
web-count:
	@scripts/web --count

.PHONY: screenshots
screenshots: web build ## Make the pictures in docs/ from a running MIDAS (needs Chromium)
	@scripts/screenshots $(MIDAS)

.PHONY: build
build: ## Build the release binary
	cargo build --release -p midas-cli

.PHONY: smoke
smoke: ## Run a short simulation
	$(or $(SMOKE_BUILD),cargo build --profile prove -p midas-cli)
	$(TARGET)/prove/midas sim run --servers 8 --workload zipf:1.1 --policy first-fit --duration 30s

.PHONY: deny
deny: ## Check the dependencies' licenses, sources and bans
	@if grep -qs '^cargo-deny' $(SKIPPED); then echo "skipped: cargo deny"; else set -x; cargo deny --locked check bans licenses sources; fi

.PHONY: prove
prove: ## Run the long proofs against an optimised binary
	$(RUN_TESTS) $(PROVE) $(PROOFS)

.PHONY: advisories
advisories: ## Check the dependencies against the advisory database (needs the network)
	@scripts/setup test
	cargo deny --locked check advisories

.PHONY: bench
bench: build ## Time a decision, a lookup, the simulator, the wire, the proxy, its cache and a cluster, with instruction counts where valgrind is
	@scripts/setup bench
	@scripts/bench
	@scripts/bench-wire
	@scripts/bench-proxy
	@scripts/bench-cache
	@scripts/bench-cluster

.PHONY: fuzz
fuzz: ## Fuzz the wire, ten minutes a target (needs the nightly toolchain)
	@scripts/fuzz

.PHONY: soak
soak: build ## Run long simulations (every workload and policy, 32 seeds), the wire's properties on 20 times the values, the cache at full size, 10 million calls through it and 5 million through three proxies that suffer everything, under the checker
	PROPTEST_CASES=20000 cargo test --profile prove -p midas-nfs --test property --test differential
	MIDAS_SOAK=1 cargo test --profile prove -p midas-cli --test jobstart --test memory --test ttl --test onename
	mkdir -p out
	$(MIDAS) sim compare --servers 8 --workload all --policy all --seeds 32 --csv out/soak.csv
	MIDAS_SOAK_CALLS=10000000 cargo test --profile prove -p midas-cli --test coherence -- --nocapture a_leased_cache_over_ganesha
	MIDAS_SOAK_CALLS=1000000 cargo test --profile prove -p midas-cli --test late -- --nocapture
	MIDAS_HOSTILE_SECONDS=60 cargo test --profile prove -p midas-cli --test strangers -- --nocapture hostile_clients
	MIDAS_SOAK_CALLS=1000000 cargo test --profile prove -p midas-cli --test ownership -- --nocapture mixed_calls
	MIDAS_SOAK_CALLS=1000000 cargo test --profile prove -p midas-sim --test fences
	MIDAS_SOAK_CALLS=1000000 cargo test --profile prove -p midas-cli --test fences -- --nocapture --test-threads 1
	MIDAS_SOAK_CALLS=5000000 cargo test --profile prove -p midas-cli --test members -- --nocapture --test-threads 1 over_ganesha_heads_daemons over_embedded_servers_they
	MIDAS_DOUBT_CALLS=1000000 cargo test --profile prove -p midas-cli --test doubt -- --nocapture names_and_bytes

.PHONY: repeat
repeat: ## Run the tests with real servers and loads 20 times, half of them beside a busy core (some hours)
	@scripts/repeat

# Needs Rust alone; the dashboard's page needs Node to be built, and everything else works without it.
.PHONY: demo
demo: web-try build ## See it work: a storm on four servers, static placement against MIDAS and others, with a dashboard (a minute)
	$(MIDAS) demo

.PHONY: demo-paper
demo-paper: build ## Reproduce the paper's evaluation on a small setting
	$(MIDAS) sim paper --quick --out out/paper

# Builds nothing: whoever installs as root should not compile as root.
.PHONY: install
install: ## Install what `make build` made: binary, manual pages, completions, unit, user, example (PREFIX=/usr/local DESTDIR=)
	@test -x $(MIDAS) || { echo "make install: $(MIDAS) is not there: run 'make build' first" >&2; exit 1; }
	install -D -m 755 $(MIDAS) $(DESTDIR)$(BINDIR)/midas
	install -D -m 644 dist/midas.toml $(DESTDIR)$(EXAMPLE)
	install -D -m 644 dist/midas.sysusers $(DESTDIR)$(SYSUSERS)
	install -D -m 644 -t $(DESTDIR)$(DOCDIR) docs/operating.md docs/metrics.md LICENSE
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/prometheus dist/prometheus/midas.rules.yml dist/prometheus/prometheus.yml
	install -D -m 644 -t $(DESTDIR)$(DOCDIR)/grafana dist/grafana/midas.json
	install -D -m 644 dist/midas.service $(DESTDIR)$(UNIT)
	sed -i -e 's|@BINDIR@|$(BINDIR)|; s|@DOCDIR@|$(DOCDIR)|' $(DESTDIR)$(UNIT)
	install -d $(dir $(addprefix $(DESTDIR),$(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)))
	$(MIDAS) man --out $(DESTDIR)$(MANDIR)/man1
	$(MIDAS) completions bash > $(DESTDIR)$(BASH_COMPLETION)
	$(MIDAS) completions zsh > $(DESTDIR)$(ZSH_COMPLETION)
	$(MIDAS) completions fish > $(DESTDIR)$(FISH_COMPLETION)
	@test -n "$(DESTDIR)" || echo "Next: systemd-sysusers && systemctl daemon-reload; write $(SYSCONFDIR)/midas/midas.toml (midas init); systemctl enable --now midas"

.PHONY: uninstall
uninstall: ## Remove what `make install` put there; configuration, state and user stay
	-cd $(DESTDIR)$(MANDIR)/man1 && $(abspath $(DESTDIR)$(BINDIR)/midas) man --list | xargs -r rm -f
	rm -f $(addprefix $(DESTDIR),$(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION))
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/midas $(EXAMPLE) $(SYSUSERS) $(UNIT) $(addprefix $(DOCDIR)/,$(DOCUMENTS)))
	-rmdir --ignore-fail-on-non-empty $(DESTDIR)$(DOCDIR)/prometheus $(DESTDIR)$(DOCDIR)/grafana $(DESTDIR)$(DOCDIR) $(DESTDIR)$(SYSCONFDIR)/midas

.PHONY: live-vs-sim
live-vs-sim: build ## Play the same calls on the wire and in the simulator and compare the queues (4 minutes)
	$(MIDAS) sim live

# Eight servers: with four, at this load, three proxies that know nothing of each other are off by 6 % only.
.PHONY: live-cluster
live-cluster: build ## Play the same storm through one proxy, three, and three without load shares, and compare the queues (3 minutes)
	$(MIDAS) sim live --policy first-fit --servers 8 --proxies 3

.PHONY: clean
clean: ## Remove what was built, the tools, and the reports
	cargo clean
	rm -rf out target web/dist web/node_modules
