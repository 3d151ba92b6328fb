# Counterpoint's build. 'make help' lists what it can do.
#
# The configuration is in variables: CC, ARCH (a folder of arch/), SANITIZE (address,undefined or thread) and
# DEBUG=1 (asserts the order of locks). The default one is built into build/, any other into a folder of its
# own there. With the ARCH of another machine it is built for that one. 'make V=1' shows the commands. WERROR=1,
# which .ci/run sets, makes an error of each warning.

# The header is where the version stands.
VERSION := $(shell sed -n 's/.define CP_VERSION "\(.*\)"/\1/p' runtime/base/version.h)
SOVERSION = 0

machine_amd64 = x86_64-linux-gnu
machine_arm64 = aarch64-linux-gnu
arch_of = $(strip $(foreach a,amd64 arm64,$(if $(filter $(1),$(machine_$(a))),$(a))))

host_arch := $(or $(call arch_of,$(shell uname -m)-linux-gnu),generic)
ifeq ($(origin CC),default)
CC = gcc
endif
ARCH = $(host_arch)
SANITIZE =
DEBUG =
WERROR =
CFLAGS = -O2 -g
LDFLAGS =
PREFIX = /usr/local
LIBDIR = $(PREFIX)/lib
MANDIR = $(PREFIX)/share/man
BASHDIR = $(PREFIX)/share/bash-completion/completions
ZSHDIR = $(PREFIX)/share/zsh/site-functions
FISHDIR = $(PREFIX)/share/fish/vendor_completions.d
DESTDIR =
T =
M =
S =

empty =
space = $(empty) $(empty)
comma = ,
differs = $(filter-out gcc,$(notdir $(CC))) $(filter-out $(host_arch),$(ARCH)) \
          $(subst $(comma),+,$(SANITIZE)) $(if $(DEBUG),debug)
B := build$(addprefix /,$(subst $(space),-,$(strip $(differs))))

# The machine that it is built for, where that is another one: by ARCH, or by the compiler's name, as in
# CC=aarch64-linux-gnu-gcc. Of gcc there is one for each machine, of clang one for all.
cross := $(or $(machine_$(ARCH)),$(patsubst %-gcc,%,$(filter %-linux-gnu-gcc,$(notdir $(CC)))))
cross := $(filter-out $(machine_$(host_arch)),$(cross))
tool = $(addsuffix -,$(cross))
cc = $(if $(filter clang%,$(CC)),$(CC) $(addprefix --target=,$(cross)),$(if $(filter gcc gcc-%,$(CC)),$(tool))$(CC))

# ---- Test programs -------------------------------------------------------------------------------

# The rooms of tests: of one module; of what users see; those that take the machine as it is, and run alone after the others.
test_rooms = unit system live
test_sources := $(sort $(wildcard $(test_rooms:%=tests/%/*_test.c)))
test_names := $(notdir $(basename $(test_sources)))
unit_names := $(patsubst tests/unit/%_test.c,%,$(filter tests/unit/%,$(test_sources)))
# Those that are linked with the endpoint's library, those that run the command, in which the endpoint's page is, and all that
# build one of these.
http_linked := $(filter http_% ui_test goroutine_test,$(test_names))
runs_program := annotate block_cycles cmd cmd_block cmd_waits completion event_list run run_hosts run_names run_waits watch_command watch_command_pmu \
                $(patsubst tests/system/%_test.c,%,$(filter tests/system/report_%,$(test_sources)))
http_programs := $(patsubst %_test,%,$(http_linked)) $(runs_program) $(patsubst %_test,%,$(filter block_%,$(test_names))) examples install man packages server wait_causes

# ---- Debian packages -----------------------------------------------------------------------------

# The goals that build the endpoint, or the command, which has the endpoint's page: all but these, and tests other than those
# of http_programs. Only such goals take what the endpoint is made of.
offline_goals = check clean demo format help lib man model
goals := $(or $(MAKECMDGOALS),all)
T_programs := $(foreach t,$(T),$(firstword $(subst /, ,$t)))
goal_programs := $(if $(filter test,$(goals)),$(T_programs)) $(patsubst test-%,%,$(filter test-%,$(goals)))
builds_http := $(or $(filter $(http_programs),$(goal_programs)),$(filter-out $(offline_goals) test-% \
                 $(if $(T_programs),test),$(goals)),$(filter test-vm test-elsewhere,$(goals)))

libraries += libc6-dev
libraries += libprotobuf-c-dev              # writes profiles ...
libraries += zlib1g-dev                     # compresses them
libraries += libdw-dev libelf-dev           # reads symbols, lines and inlining
libraries += libpfm4-dev                    # knows processors' events by name
libraries += libiberty-dev                  # demangles names
# The library of the endpoint, which the core does without:
libraries += $(if $(builds_http),libmicrohttpd-dev)    # serves it
# The command has it on x86-64:
libraries += $(if $(and $(builds_http),$(filter amd64,$(ARCH))),libzydis-dev) # decodes blocks of code
libraries += $(if $(filter-out $(offline_goals),$(goals)),libunwind-dev) # walks the stacks of Gs; the tests' reference

packages += $(if $(cross),gcc-$(subst _,-,$(cross)),gcc)
packages += protobuf-c-compiler             # ... by pprof/profile.proto
# The page of the endpoint is bundled by these; nodejs of another origin than Debian brings npm along.
packages += $(if $(builds_http),nodejs $(if $(shell command -v npm),,npm))
# demo and tests: go tool pprof reads the profiles
packages += $(if $(filter-out deb install lib man product uninstall,$(goals)),golang-go)
packages += $(if $(filter clang%,$(notdir $(CC))),clang libclang-rt-14-dev)
packages += $(if $(filter check deps,$(goals)),clang-format-14)

# Only the tests need these: the format's own profile.proto and the decoder that reads
# profiles by it; pkg-config, to find what was installed; other compilers and linkers, whose programs are looked
# at, and the reference for what stands in them; xz, which distributions pack symbols with; jq, to read JSON;
# curl, gperftools' pprof and openssl, to ask the endpoint, and a browser for its page; the test frameworks that
# the flags of testing/ are tried with; Go's reader of benchmarks, and prove of perl, for what the runner prints;
# libbz2, which a static program takes; libjpeg, whose stacks are looked at; libdebuginfod, which nothing may call.
test_packages = golang-github-google-pprof-dev golang-golang-x-tools-dev perl protobuf-compiler pkgconf g++ \
                clang-14 lld-14 llvm-14 xz-utils jq curl google-perftools openssl libdebuginfod1
# man shows the manual's pages, and complains of what is wrong in them; bash-completion completes command lines.
test_packages += man-db bash-completion
# Without these, tests are skipped: dwz makes debug information smaller, programs profile themselves under valgrind and
# with jemalloc, mandoc complains of more than man does, zsh and fish complete command lines, and cmake finds
# what is installed, as pkg-config does. Boost.Fiber and State Threads are runtimes that the library is embedded in.
test_packages += $(if $(filter deps,$(goals)),dwz valgrind libjemalloc2 mandoc zsh fish cmake libboost-fiber-dev libst-dev)
test_packages += $(if $(cross),,libcmocka-dev check libcriterion-dev libjpeg62-turbo-dev) libbz2-dev
test_packages += $(if $(or $(filter deps,$(goals)),$(if $(T_programs),,$(filter test,$(goals))), \
                   $(filter ui report_html,$(goal_programs))),chromium)
packages += $(if $(filter deps test quick test-% mutants,$(goals)),$(test_packages))
# This compares interfaces.
packages += $(if $(filter deps abi abi-renew,$(goals)),abigail-tools)
# This verifies the models of protocols.
packages += $(if $(filter deps model,$(goals)),spin)
# This makes the load that the endpoint is measured under.
packages += $(if $(filter deps bench,$(goals)),wrk curl)
# This is what watches are compared with. The benchmark looks for it when it runs.
packages += $(if $(filter deps bench,$(goals)),libpapi-dev)
# Prometheus' promtool looks at metrics; without it, their tests are skipped. Of the package prometheus only this program is
# taken, into a folder of its own: the service, which would start if the package were installed, is not wanted.
tools = .cache/tools
fetch_promtool = command -v promtool > /dev/null || [ -x $(tools)/promtool ] || { mkdir -p $(tools) && cd $(tools) && \
                     apt-get download -qq prometheus 2> /dev/null && dpkg-deb --fsys-tarfile prometheus_*.deb | \
                     tar -x --strip-components=3 ./usr/bin/promtool; rm -f prometheus_*.deb; }; \
                 PATH=$$PATH:$(CURDIR)/$(tools) command -v promtool > /dev/null || echo "There is no promtool: tests that need it are skipped."
# These make the emulated machine and what goes into it.
packages += $(if $(filter deps test-vm,$(goals)),qemu-system-arm cpio)
# These make Debian's packages, and lintian complains of what is wrong in them.
packages += $(if $(or $(filter deps deb,$(goals)),$(if $(T_programs),,$(filter test,$(goals))), \
              $(filter packages,$(goal_programs)),$(and $(filter test-elsewhere,$(goals)),$(filter packages,$(S)))),debhelper dpkg-dev build-essential)
packages += $(if $(filter deps,$(goals)),lintian)
# This makes the empty Debian.
packages += $(if $(filter deps test-elsewhere,$(goals)),debootstrap)

# Libraries are those of the machine that it is built for, and may lie beside this one's.
foreign := $(call arch_of,$(cross))
library_arch := $(or $(foreign),$(shell dpkg --print-architecture 2> /dev/null))
packages += $(addsuffix $(addprefix :,$(library_arch)),$(libraries))

# Before anything is built, these goals install what is missing, and others say what it is. Neither is done for the goals
# that name a file, and for what needs no package.
before := $(if $(filter deps demo test deb,$(goals)),deps,$(if $(filter all product lib quick test-% mutants bench check \
            model install,$(goals)),present))

# ---- Sources -------------------------------------------------------------------------------------

# The rooms of the library. Public headers include each other by their bare names, as they are installed.
rooms = arch/$(ARCH) runtime/base runtime/event runtime/perf runtime/unwind runtime runtime/engine runtime/counter \
        runtime/watch runtime/wait runtime/stall runtime/sched pprof/symbol pprof
public_headers = runtime/base/atomic.h runtime/base/error.h runtime/base/version.h runtime/event/event.h \
                 runtime/account.h runtime/runtime.h runtime/counter/counter.h runtime/watch/watch.h runtime/stall/stall.h \
                 runtime/sched/sched.h \
                 pprof/pprof.h http/http.h testing/testing.h

# The manual's pages, the same for every machine. atomic.h is for the other headers.
man = build/man
documented = $(filter-out %/atomic.h,$(public_headers))
release_date = $(shell date -u +%F -d "$$(sed -n '/^ -- .*>  /{s///p;q}' debian/changelog)")

gen = $(B)/gen/pprof/profile.pb-c
sources := $(foreach d,$(rooms),$(sort $(wildcard $(d)/*.c $(d)/*.S)))
lib_objects := $(addprefix $(B)/obj/,$(addsuffix .o,$(basename $(sources)) pprof/profile.pb-c))

# What stands on the core, each a library of its own: libcounterpoint-http, -testing.
sides = http testing
side_objects = $(addprefix $(B)/obj/,$(addsuffix .o,$(basename $(sort $(wildcard $(1)/*.c $(1)/*.S)))))

# The endpoint's page, the same for every machine; and where its packages are, which were fetched and outlive
# "make clean".
ui = build/ui
ui_modules = .cache/npm/ui
ui_sources := $(wildcard http/ui/*)
ui_test = .cache/npm/ui-test

# What measures blocks of code, on processors that it has a folder for; there is another one for all others. It is linked into
# the command.
block_arch := $(if $(wildcard block/$(ARCH)/code.c),$(ARCH))
block_objects := $(addprefix $(B)/obj/,$(addsuffix .o,$(basename $(sort $(if $(block_arch), \
                   $(wildcard block/*.c block/$(block_arch)/*.c block/$(block_arch)/*.S),block/names.c block/generic/none.c)))))
block_libs = $(if $(block_arch),-lZydis)

program = $(B)/bin/counterpoint
program_objects := $(block_objects) $(addprefix $(B)/obj/,$(addsuffix .o,$(basename $(sort $(wildcard $(addprefix cmd/counterpoint/, \
                     *.c annotate/*.c block/*.c report/*.c report/*.S watch/*.c))))))
example_parts = common server_http server_waits server_work
# Each shows the flags of testing/ with another's test framework. Only the tests build them. Criterion's own
# process crashes under ThreadSanitizer, with or without a profile.
frameworks = cmocka check $(if $(findstring thread,$(SANITIZE)),,criterion)
# Those that tests/demo runs.
demos = goroutine serial
# A folder of examples/ has programs of one file each. What is in embed/ needs other runtimes: a test builds it.
example_names := $(filter-out $(example_parts) with_% embed/%,$(patsubst examples/%.c,%,$(sort $(wildcard examples/*.c examples/*/*.c))))
watch_examples := $(filter watch/%,$(example_names))
# Of the processor's own code, where it is read: see arch/arch.h.
caller_objects := $(patsubst %.c,$(B)/obj/%.o,$(wildcard tests/unit/caller_$(ARCH).c))
# Programs that tests run.
sample_names := $(patsubst tests/support/%.c,%,$(sort $(wildcard tests/support/*_sample.c)))
# Runs test programs for tests/run, and ends what they leave.
watch = $(B)/tests/watch
# Of runner_sample, beside its own.
sample_parts = runner_sample_output runner_sample_bench runner_sample_hang
bench_names := $(patsubst bench/%.c,%,$(sort $(wildcard bench/*.c)))

# What `counterpoint run` preloads into programs: a copy of the core behind the program's own calls. The second one has the
# endpoint, too.
preload_objects := $(patsubst %.c,$(B)/obj/%.o,$(sort $(wildcard preload/*.c)))
preload_so = $(B)/lib/libcounterpoint-preload.so
preload_http_so = $(B)/lib/libcounterpoint-preload-http.so
# What it preloads, too, if waits are to be profiled: nothing but the program's calls that wait.
preload_waits_objects := $(patsubst %.c,$(B)/obj/%.o,$(sort $(wildcard preload/waits/*.c)))
preload_waits_so = $(B)/lib/libcounterpoint-preload-waits.so
# A sanitizer's library would have to be preloaded first.
preloads = $(if $(SANITIZE),,$(preload_so) $(preload_http_so) $(preload_waits_so))

lib_a = $(B)/lib/libcounterpoint.a
lib_so = $(B)/lib/libcounterpoint.so
side_a := $(sides:%=$(B)/lib/libcounterpoint-%.a)
side_so := $(sides:%=$(B)/lib/libcounterpoint-%.so)
# Libraries that no program is linked with, such as those that are loaded into others' programs: installed into
# $(LIBDIR)/counterpoint. A line in debian/counterpoint.install puts them into the package.
private_so = $(preloads)
http_a = $(B)/lib/libcounterpoint-http.a
testing_a = $(B)/lib/libcounterpoint-testing.a
examples := $(addprefix $(B)/examples/,$(example_names))
framework_examples := $(if $(cross),,$(frameworks:%=$(B)/examples/with_%))
tests := $(addprefix $(B)/tests/,$(test_names))
unit_tests := $(unit_names:%=$(B)/tests/%_test)
samples := $(addprefix $(B)/tests/,$(sample_names))
test_programs = $(tests) $(samples) $(framework_examples)
benches := $(addprefix $(B)/bench/,$(bench_names))
# The simulated kernel, which every test program can play.
sim_objects := $(patsubst %.c,$(B)/obj/%.o,$(sort $(wildcard tests/support/sim/*.c)))
objects := $(lib_objects) $(preload_objects) $(preload_waits_objects) $(foreach s,$(sides),$(call side_objects,$(s))) $(program_objects) $(B)/obj/tests/support/test.o \
           $(sim_objects) $(caller_objects) \
           $(patsubst %,$(B)/obj/examples/%.o,$(example_parts)) \
           $(B)/obj/tests/support/watch.o $(sample_names:%=$(B)/obj/tests/support/%.o) $(sample_parts:%=$(B)/obj/tests/support/%.o) \
           $(test_sources:%.c=$(B)/obj/%.o) \
           $(patsubst $(B)/%,$(B)/obj/%.o,$(examples) $(framework_examples) $(lacking) $(benches))
# If there is a build, its objects show who needs whom: see tests/rooms.awk. The page is not bundled for that.
built := $(if $(wildcard $(lib_a)),$(lib_objects) $(filter-out %/ui_files.o %/report/page.o,$(wildcard \
           $(foreach s,$(sides),$(call side_objects,$(s))) $(program_objects))))

# Of the tests of blocks.
$(foreach t,$(filter block_%,$(test_names)),$(eval LIBS_$(t) = $(block_libs)))

# Runs commands as other machines would.
lacking = $(B)/tests/elsewhere/lacking

# Debian's packages, of the default build: from a copy of the tree, without make's variables.
deb = build/deb
deb_source = $(deb)/counterpoint-$(VERSION)
deb_sources = $(shell find Makefile abi arch cmake cmd debian docs http man pprof preload runtime testing block -type f)

# ---- Flags ---------------------------------------------------------------------------------------

warnings = -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual \
           -Wwrite-strings -Wundef
sanitizer = $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all)
# gcc says at each fence that ThreadSanitizer does not see it; nothing can be done about that there.
warnings += $(if $(findstring thread,$(SANITIZE)),$(if $(findstring clang,$(CC)),,-Wno-tsan))

# -iquote and not -I: a header of ours must not stand in for a system header of that name.
# -fno-plt and initial-exec: a call out of the signal handler, and its first look at a thread's variable, must
# not end up in the dynamic linker, in whatever way a program links the library.
cflags = -std=gnu11 -D_GNU_SOURCE -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fPIC -fno-plt \
         -ftls-model=initial-exec -pthread $(warnings) $(sanitizer) $(if $(DEBUG),-DCP_DEBUG) \
         $(addprefix -iquote ,. arch/$(ARCH) $(sort $(dir $(public_headers))) $(B)/gen $(B)/gen/pprof) $(CFLAGS)
ldflags = -pthread $(sanitizer) $(LDFLAGS)
libs = -lprotobuf-c -lz -ldw -lelf -lpfm -liberty -ldl -lrt
http_libs = -lmicrohttpd -lunwind
testing_libs = -ldw -lelf -lz -liberty
# Of libunwind's users each is apart from the core: it brings a backtrace() of its own.
LIBS_context_test = -lunwind
LIBS_unwind_test = -lunwind
LIBS_unwind_end_test = -lunwind
LIBS_recording_stack_test = -lunwind
LIBS_handler = -lunwind
# The exact values that tests compare with.
LIBS_histogram_test = -lm
LIBS_wait_weight_test = -lm
LIBS_counterpoint = -lm $(block_libs)
LIBS_annotate_flow_test = -lm
LIBS_report_model_test = -lm
LIBS_with_cmocka = -lcmocka
LIBS_with_check = $(shell pkg-config --libs check)
LIBS_with_criterion = -lcriterion
# So many paired rounds, or listings, are enough for medians.
BENCH_accounts = -benchtime 15x
BENCH_connections = -benchtime 21x
BENCH_http = -benchtime 15x
BENCH_latency = -benchtime 9x
BENCH_overhead = -benchtime 21x
BENCH_listing = -benchtime 9x
BENCH_keys = -benchtime 21x
BENCH_memory = -benchtime 1x
BENCH_scale = -benchtime 15x
BENCH_watch = -benchtime 201x
BENCH_wait = -benchtime 1001x
BENCH_wall = -benchtime 5x
BENCH_account = -benchtime 201x
# Only for the page's files, its tests, and the command's search for what it preloads.
CFLAGS_ui_files = -Wa,-I,$(ui)
CFLAGS_page = -Wa,-I,$(ui)
CFLAGS_run_target = -DCP_MULTIARCH='"$(or $(machine_$(ARCH)),$(machine_$(host_arch)),none)"'
# Where "make deps" puts promtool, for those who look at metrics.
CFLAGS_watch_print_test = -DCP_TOOLS='"$(CURDIR)/$(tools)"'
CFLAGS_http_watches_test = $(CFLAGS_watch_print_test)
# Stacks of waits lead through code without frame pointers.
CFLAGS_recording_stack_test = -fomit-frame-pointer
CFLAGS_http_accounts_test = $(CFLAGS_watch_print_test)
CFLAGS_ui_test = -DCP_UI='"$(CURDIR)/http/ui"' -DCP_UI_TEST='"$(CURDIR)/$(ui_test)"'
CFLAGS_report_html_test = -DCP_UI_TEST='"$(CURDIR)/$(ui_test)"'
# Profiles may have any values, and sums of them wrap around as Go's do.
$(B)/obj/cmd/counterpoint/report/%.o: private cflags += -fwrapv

# Not among the flags that everything is built anew for.
compile = $(Q)$(cc) $(cflags) $(if $(WERROR),-Werror)

Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-8s%s\n' $(1) $(2))

# ---- Goals ---------------------------------------------------------------------------------------

.PHONY: all product lib deps present demo quick test verify test-vm test-elsewhere mutants model bench abi abi-renew check format man install uninstall deb clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:

# For another machine the tests and benchmarks, too.
product = $(lib_a) $(lib_so) $(side_a) $(side_so) $(private_so) $(program)

all: $(product) $(examples)     ## the libraries, the command and the examples
all: $(if $(cross),$(tests) $(samples) $(benches))
product: $(product) man          # what "make install" installs
lib: $(lib_a) $(lib_so)         ## the core alone: build/lib/libcounterpoint.a and .so

demo: $(demos:%=$(B)/examples/%) ## runs the two examples; measured and expected shares side by side
	$(Q)tests/demo $(B)

test:                           ## all tests, or those that T names: make test T="sched pprof/one_test_of_it"
	$(Q)tests/run $(B) $(T)
test: $(if $(T_programs),$(T_programs:%=$(B)/tests/%_test),all $(test_programs))

quick: $(unit_tests)            ## the tests of single modules (tests/unit/), in seconds
	$(Q)tests/run $(B) $(unit_names)

test-%: $(B)/tests/%_test       ## one test program: make test-sched
	$(Q)tests/run $(B) $*

verify:                         ## .ci/run and all else that must hold before a release, in half an hour to an hour
	$(Q).ci/run verify

mutants: | $(before)            ## makes mistakes, and looks whether the tests notice: make mutants M="NAME ..."
	$(Q)tests/mutants/run $(M)

model: | $(before)              ## verifies the models of protocols in design/models/ with spin
	$(Q)CC='$(CC)' design/models/run

bench: all $(examples) $(benches) ## all benchmarks; one: build/bench/switch -bench Yield -count 5
	$(Q)$(foreach b,$(bench_names),$(B)/bench/$(b) -run '^$$' -bench . $(BENCH_$(b)) &&) true

test-elsewhere: $(if $(filter-out packages,$(or $(S),all)),all $(test_programs) $(lacking)) $(if $(filter packages,$(S)),$(deb)/.done)
test-elsewhere:                 ## demo and tests as on other machines: make test-elsewhere S="one-cpu no-pmu"
	$(Q)tests/elsewhere/test $(B) $(S)

# What other machines are built for, tests and all, is made by the same rules: see "all".
test-vm: | $(before)            ## tests and examples in emulated arm64 machines, which have a PMU
	$(Q)$(MAKE) --no-print-directory ARCH=arm64 all
	$(Q)tests/vm/test build/arm64

# The dumps are of the build for amd64 by gcc.
abi: lib $(side_a) $(side_so)   ## the libraries' interfaces, against those of the last release in abi/
	$(Q)tests/abi $(B) $(public_headers)

abi-renew: lib $(side_a) $(side_so) ## makes these interfaces those of the last release
	$(Q)tests/abi --renew $(B) $(public_headers)

deb: $(deb)/.done               ## Debian's packages, into build/deb
	@ls $(deb)/*.deb

man: $(man)/.done               ## the manual's pages, from the headers' comments: build/man

check: $(built) | $(before)     ## the sources' form: format, order of the rooms, sizes
	$(Q)tests/check $(if $(built),$(B))

format:                         ## brings the sources into that format
	clang-format-14 -i $$(git ls-files -co --exclude-standard '*.c' '*.h')

clean:                          ## takes build/ away; what was fetched stays in .cache/
	rm -rf build

help:                           ## this list
	@awk -F ':.*##' '/^[a-z%-]+:.*##/ { printf "  make %-10s%s\n", $$1, $$2 }' Makefile

# The packages that are missing, into the shell's variable of that name. dpkg-query is slow to start: if it knows all
# packages as installed, it is not asked for each of them.
status = dpkg-query -W -f '$${db:Status-Status}\n'
find_missing = missing=$$(all=$$($(status) $(packages) 2> /dev/null) && [ -z "$$(echo "$$all" | grep -vx installed)" ] || \
                   for p in $(packages); do $(status) $$p 2> /dev/null | grep -qx installed || echo $$p; done)

present:
	@command -v dpkg-query > /dev/null || exit 0; $(find_missing); [ -z "$$missing" ] || \
	    { echo "Debian packages are missing:" $$missing. "'make deps' installs all that the project needs."; exit 1; }

# Nothing is fetched where everything is there, and nothing is done where there is no dpkg.
deps:                           ## installs the Debian packages that are missing, as 'make demo' and 'make test' do
	@command -v dpkg-query > /dev/null || \
	    { echo "This is no Debian system; needed is what Debian has in: $(strip $(packages))"; exit 0; }; \
	$(find_missing); [ -n "$$missing" ] || exit 0; \
	[ "$$(id -u)" = 0 ] && root= || root=$$(command -v sudo) || \
	    { echo "Packages are missing. As root: apt-get install" $$missing; exit 1; }; \
	echo "Installing" $$missing; \
	$(if $(foreign),$$root dpkg --add-architecture $(foreign) &&) \
	$$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive \
	    apt-get install -qqy --no-install-recommends $$missing > /dev/null
	$(if $(filter deps,$(goals)),@! command -v dpkg-deb > /dev/null || { $(fetch_promtool); })

# ---- Rules ---------------------------------------------------------------------------------------

# What others are built from but make cannot see: the flags, and which objects the library is made of.
$(B)/flags: text = $(cc) $(cflags) $(ldflags) $(libs) $(http_libs) $(testing_libs) $(VERSION)
$(B)/objects: text = $(lib_objects) $(foreach s,$(sides),$(call side_objects,$(s)))
$(B)/flags $(B)/objects: FORCE | $(before)
	@mkdir -p $(@D)
	@echo '$(text)' | cmp -s - $@ || echo '$(text)' > $@

$(gen).c: pprof/profile.proto | $(before)
	$(call say,PROTOC,$<)
	@mkdir -p $(B)/gen
	$(Q)protoc-c --c_out=$(B)/gen $<

$(B)/obj/%.o: %.c $(B)/flags | $(gen).c $(before)
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(compile) $(CFLAGS_$(*F)) -MMD -MP -c -o $@ $<

$(B)/obj/%.o: %.S $(B)/flags | $(before)
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(compile) $(CFLAGS_$(*F)) -MMD -MP -c -o $@ $<

# What packages the page is made of stands in the lock, each with its digest.
npm_ci = $(Q)command -v npm > /dev/null || { echo "The endpoint's page takes npm: make deps"; exit 1; }; \
         rm -rf $(@D) && mkdir -p $(@D) && cp $(<D)/package.json $(<D)/package-lock.json $(@D) && \
         (cd $(@D) && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error $(npm_retry) > /dev/null) && touch $@ || \
         { echo "$(npm_failed)"; exit 1; }
npm_retry = --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=3000
npm_failed = The packages that $(<D)/package-lock.json names could not be fetched into $(@D): npm says why above. \
             Connect this machine to npm's registry, or copy .cache/npm from a clone in which 'make' has run. \
             'make lib', 'make demo', and the tests of all but the endpoint do without them.

$(ui_modules)/.done: http/ui/package-lock.json http/ui/package.json | $(before)
$(ui_test)/.done: tests/ui/package-lock.json tests/ui/package.json | $(before)
$(ui_modules)/.done $(ui_test)/.done:
	$(call say,NPM,$<)
	$(npm_ci)

$(ui)/version: $(ui_sources) $(ui_modules)/.done
	$(call say,BUNDLE,$@)
	@mkdir -p $(@D)
	$(Q)node http/ui/bundle.mjs $(ui_modules) $(@D)

$(B)/obj/http/ui_files.o $(B)/obj/cmd/counterpoint/report/page.o: $(ui)/version

$(B)/obj/pprof/profile.pb-c.o: $(gen).c $(B)/flags
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(compile) -MMD -MP -c -o $@ $<

archive = $(Q)rm -f $@ && $(tool)ar qcs $@ $(filter %.o,$^)

# Only cp_* is exported, less cp__*. It stays loaded: a SIGPROF may be on its way to the handler in it.
define share
$(call say,LD,$@)
@mkdir -p $(@D)
$(Q)$(cc) $(ldflags) -shared -Wl,-soname,$(@F).$(SOVERSION) -Wl,--version-script=abi/$(basename $(@F)).map \
    -Wl,-z,now,-z,nodelete $(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs) \
    -o $@.$(VERSION) $(filter %.o,$^) $(1)
@ln -sf $(@F).$(VERSION) $@.$(SOVERSION) && ln -sf $(@F).$(SOVERSION) $@
endef

$(lib_a): $(lib_objects) $(B)/objects
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(archive)

$(lib_so): $(lib_objects) $(B)/objects
	$(call share,$(libs))

# What a library has of the core that the core's shared library does not export.
borrows = runtime/base/error.o runtime/base/sized.o
http_borrows = $(borrows) runtime/base/sysctl_linux.o pprof/rate_linux.o
testing_borrows = $(borrows) runtime/base/table.o pprof/symbol/debug_file.o pprof/symbol/demangle.o

# Such a library finds the core beside itself: a program's own -rpath is not for what its libraries need.
define side
$(B)/lib/libcounterpoint-$(1).a: $(call side_objects,$(1)) $(B)/objects
	$$(call say,AR,$$@)
	@mkdir -p $$(@D)
	$$(archive)

$(B)/lib/libcounterpoint-$(1).so: $(call side_objects,$(1)) $(addprefix $(B)/obj/,$($(1)_borrows)) $(B)/objects $(lib_so)
	$$(call share,-L$$(@D) -lcounterpoint -Wl$$(comma)-rpath$$(comma)'$$$$ORIGIN' $$($(1)_libs))
endef
$(foreach s,$(sides),$(eval $(call side,$(s))))

# The library's own calls of these are not the program's, or may not go to the program's allocator: see preload/real.h and
# preload/heap.h.
preload_wrapped = sigaction pthread_create malloc calloc realloc free
# The core stands first, so that its constructor and its handlers of forks run before those of preload/. Only what
# preload.map lists is exported: a program may have the library itself, or zlib's symbols, for its own use.
define preload
$(call say,LD,$@)
@mkdir -p $(@D)
$(Q)$(cc) $(ldflags) -shared -Wl,-soname,$(@F) -Wl,--version-script=preload/preload.map -Wl,-z,now,-z,nodelete \
    $(preload_wrapped:%=-Wl$(comma)--wrap=%) -o $@ -Wl,--whole-archive $(filter %.a,$^) -Wl,--no-whole-archive \
    $(filter %.o,$^) $(1) $(libs)
endef

$(preload_so): $(preload_objects) $(lib_a) preload/preload.map
	$(call preload)
$(preload_http_so): $(preload_objects) $(lib_a) $(http_a) preload/preload.map
	$(call preload,$(http_libs))

# A thread that is cancelled in such a call unwinds its stack through ours. Checked variants of the calls are among those
# that are defined there, and must not take the place of others.
$(preload_waits_objects): private cflags += -fexceptions -U_FORTIFY_SOURCE
$(preload_waits_so): $(preload_waits_objects) preload/waits/waits.map
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(cc) $(ldflags) -shared -Wl,-soname,$(@F) -Wl,--version-script=preload/waits/waits.map -Wl,-z,now,-z,nodelete \
	    -o $@ $(filter %.o,$^)

# Whoever may use no event at all, skips the tests that ask for one, and no test asks for more samples than a thread has
# time for: see tests/support/test.c.
wrapped = cp_slots_start cp__slot_publish cp_counter_open
# What the simulated kernel answers: see tests/support/sim/calls.c. Its files are built without sanitizers, because
# SIM_RUN() calls them with signals blocked, and interrupts whoever runs time.
wrapped += syscall clock_gettime getrusage uname mmap munmap read close cp__sysctl cp__has_thread_sanitizer \
           cp__let_deferred_come_from_handler cp__first_draw_from_handler cp__first_head_from_handler
$(sim_objects): private sanitizer =

link = $(Q)$(cc) $(ldflags) -pie -Wl,-z,now -o $@ $(filter %.o,$^) \
        $(filter-out $(lib_a),$(filter %.a,$^)) $(lib_a) \
        $(if $(filter $(http_a),$^),$(http_libs)) $(LIBS_$(@F)) $(libs) \
        $(if $(filter %/test.o,$^),$(wrapped:%=-Wl$(comma)--wrap=%))

# The command writes the environment that the preloaded library reads.
$(program): $(program_objects) $(B)/obj/preload/settings.o $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

$(B)/examples/%: $(B)/obj/examples/%.o $(testing_a) $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

$(B)/examples/goroutine $(B)/examples/serial: $(B)/obj/examples/common.o
$(B)/examples/server: $(patsubst %,$(B)/obj/examples/server_%.o,http waits work) $(http_a)

$(B)/tests/caller_test: $(caller_objects)
$(B)/tests/report_model_test: $(patsubst %,$(B)/obj/cmd/counterpoint/%.o,complain $(addprefix report/,arena facts filter graph \
                                measure model names rounds output top))
$(B)/tests/annotate_flow_test: $(patsubst %,$(B)/obj/cmd/counterpoint/%.o,complain report/arena annotate/blocks annotate/flow_solver annotate/frequency)
$(B)/tests/annotate_judge_test: $(B)/obj/cmd/counterpoint/annotate/judge.o $(B)/obj/block/names.o
$(filter $(B)/tests/block_%,$(tests)): $(block_objects)
$(B)/tests/watch_rounds_test: $(B)/obj/cmd/counterpoint/watch/rounds.o

# Whatever room a test's source is in, its program is build/tests/NAME_test.
define test_room
$(patsubst tests/$(1)/%.c,$(B)/tests/%,$(filter tests/$(1)/%,$(test_sources))): $(B)/tests/%: $(B)/obj/tests/$(1)/%.o
endef
$(foreach r,$(test_rooms),$(eval $(call test_room,$(r))))

$(tests): $(B)/obj/tests/support/test.o $(sim_objects) $(testing_a) $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

$(tests): | $(watch)

$(watch): $(B)/obj/tests/support/watch.o $(testing_a) $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

$(B)/bench/listing $(B)/bench/connections $(http_linked:%=$(B)/tests/%): $(http_a)

$(B)/tests/%_sample: $(B)/obj/tests/support/%_sample.o $(testing_a) $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

# What test programs run, or look at.
needs = $(1:%=$(B)/tests/%_test): | $(2)
$(call needs,$(runs_program),$(program))
$(call needs,annotate run run_hosts run_names run_waits,$(preloads))
$(call needs,counts,$(B)/tests/counts_sample)
$(call needs,watch_command_pmu,$(B)/tests/watched_sample)
$(call needs,rooms,$(built))
$(call needs,processors,$(foreach t,cmd event_list event_pfm,$(B)/tests/$(t)_test))
$(call needs,debug_server,$(B)/tests/runner_sample $(B)/examples/serial)
$(call needs,runner runner_bench runner_end runner_flags runner_output,$(B)/tests/runner_sample)
$(call needs,runner_end,$(B)/tests/idle_sample)
$(call needs,runner_profile,$(B)/tests/profiled_sample)
$(call needs,examples,$(demos:%=$(B)/examples/%) $(B)/examples/server)
$(call needs,server wait_causes,$(B)/examples/server)
$(call needs,watch_examples watch_models,$(watch_examples:%=$(B)/examples/%))
$(call needs,handler hosts sanitized tools,$(lib_a))
$(call needs,install,$(preloads) $(lib_a) $(lib_so) $(side_a) $(side_so) $(program))
$(call needs,man,$(program) $(man)/.done)
$(call needs,packages,$(product) $(man)/.done $(if $(strip $(differs)),,$(deb)/.done))
$(call needs,testing_flags,$(framework_examples))
$(call needs,testing_header,$(lib_so) $(B)/lib/libcounterpoint-testing.so)

$(lacking): $(B)/obj/tests/elsewhere/lacking.o
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(cc) $(ldflags) -pie -o $@ $(filter %.o,$^)

$(B)/tests/runner_sample: $(sample_parts:%=$(B)/obj/tests/support/%.o)

# The browser's driver is a package, too; on another machine there may be no browser.
$(B)/tests/ui_test: $(if $(cross),,$(ui_test)/page.mjs)
$(B)/tests/report_html_test: $(if $(cross),,$(ui_test)/report.mjs)

$(ui_test)/%.mjs: tests/ui/%.mjs $(ui_test)/.done
	$(Q)cp $< $@

$(B)/bench/%: $(B)/obj/bench/%.o $(testing_a) $(lib_a)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(link)

$(man)/.done: man/generate $(wildcard man/*.[1-9]) $(documented) $(wildcard cmd/counterpoint/*.c cmd/counterpoint/*/*.c) debian/changelog
	$(call say,MAN,$(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(@D)
	$(Q)man/generate $(@D) $(VERSION) $(release_date) $(documented) && touch $@

# What has been fetched for the page is copied, too, so that nothing is fetched again.
$(deb)/.done: $(deb_sources) $(ui_modules)/.done | $(before)
	$(call say,DEB,$(@D))
	$(Q)rm -rf $(@D) && mkdir -p $(deb_source)
	$(Q)tar -c --exclude=./build --exclude=./.cache --exclude=./.git . $(ui_modules) | tar -x --no-same-owner -C $(deb_source)
	$(Q)cd $(deb_source) && env -i PATH="$$PATH" HOME="$$HOME" DEB_BUILD_OPTIONS="$$DEB_BUILD_OPTIONS" \
	    dpkg-buildpackage -b -us -uc $(filter -j%,$(MAKEFLAGS)) > ../log 2>&1 || \
	    { tail -n 20 ../log; echo "The packages could not be built: $(@D)/log has all of this."; exit 1; }
	$(Q)rm -rf $(deb_source) && touch $@

# What libdw needs in turn, of a program that is linked statically, is for its own file to say; libpfm4 and libiberty
# have none. That of libmicrohttpd is not asked: it leads to libraries of which Debian has no static ones, and the
# endpoint can then be linked with the shared one still.
define pkg_config
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$${prefix}/include

Name: counterpoint
Description: CPU profiler for green-thread runtimes and pthread programs
Version: $(VERSION)
Requires.private: libprotobuf-c zlib libdw libelf
Cflags: -I$${includedir}
Libs: -L$${libdir} -lcounterpoint
Libs.private: -lpfm -liberty -ldl -lrt -pthread
endef
export pkg_config

define side_pkg_config
prefix=$(PREFIX)
libdir=$(LIBDIR)
includedir=$${prefix}/include

Name: counterpoint-$(1)
Description: $(2)
Version: $(VERSION)
Requires: counterpoint
Libs: -L$${libdir} -lcounterpoint-$(1)
Libs.private: $($(1)_libs)
endef
http_pkg_config := $(call side_pkg_config,http,The profiles of Counterpoint over HTTP)
testing_pkg_config := $(call side_pkg_config,testing,Tests and benchmarks with the profiles and counters of Counterpoint)
export http_pkg_config testing_pkg_config

to_include = $(DESTDIR)$(PREFIX)/include/counterpoint
to_bin = $(DESTDIR)$(PREFIX)/bin
to_lib = $(DESTDIR)$(LIBDIR)
to_man = $(DESTDIR)$(MANDIR)
to_cmake = $(to_lib)/cmake/counterpoint
shared = $(foreach l,$(lib_so) $(side_so),$l $l.$(SOVERSION))
versioned = $(addsuffix .$(VERSION),$(lib_so) $(side_so))
cmake_words = -e 's|@version@|$(VERSION)|g' -e 's|@soversion@|$(SOVERSION)|g' \
              -e "s|@include_from_lib@|$$(realpath -ms --relative-to=$(LIBDIR) $(PREFIX)/include)|" \
              -e "s|@pointer_size@|$$(readelf -h $(lib_so) | grep -q ELF64 && echo 8 || echo 4)|g"

# What is installed says where it is, wherever it is used.
absolute = @case '$($(1))' in /*) ;; *) echo "$(1) must be an absolute path, and \"$($(1))\" is none."; exit 1 ;; esac

install: product                ## into PREFIX (/usr/local), below DESTDIR
	$(call absolute,PREFIX)
	$(call absolute,LIBDIR)
	$(call absolute,MANDIR)
	$(call absolute,BASHDIR)
	$(call absolute,ZSHDIR)
	$(call absolute,FISHDIR)
	install -d $(to_include) $(to_lib)/pkgconfig
	install -D -t $(to_bin) $(program)
	install -m 644 $(public_headers) $(to_include)
	install -m 644 $(lib_a) $(side_a) $(to_lib)
	install -m 755 $(versioned) $(to_lib)
	cp -P $(shared) $(to_lib)
	@printf '%s\n' "$$pkg_config" > $(to_lib)/pkgconfig/counterpoint.pc
	@printf '%s\n' "$$http_pkg_config" > $(to_lib)/pkgconfig/counterpoint-http.pc
	@printf '%s\n' "$$testing_pkg_config" > $(to_lib)/pkgconfig/counterpoint-testing.pc
	install -d $(to_cmake)
	for file in cmake/*.cmake; do sed $(cmake_words) $$file > $(to_cmake)/$${file##*/} || exit; done
	chmod 644 $(to_cmake)/*.cmake $(to_lib)/pkgconfig/counterpoint*.pc
	$(if $(private_so),install -D -m 644 -t $(to_lib)/counterpoint $(private_so))
	install -d $(foreach section,1 3 7,$(to_man)/man$(section))
	cd $(man) && for page in man*/*; do if [ -h $$page ]; then cp -P $$page $(abspath $(to_man))/$$page; \
	    else install -m 644 $$page $(abspath $(to_man))/$$page; fi || exit; done
	install -D -m 644 cmd/completion/counterpoint.bash $(DESTDIR)$(BASHDIR)/counterpoint
	install -D -m 644 -t $(DESTDIR)$(ZSHDIR) cmd/completion/_counterpoint
	install -D -m 644 -t $(DESTDIR)$(FISHDIR) cmd/completion/counterpoint.fish
	$(if $(DESTDIR),,@echo "Programs find the shared libraries after 'ldconfig', as root, where that reads $(LIBDIR)." \
	    "Elsewhere link them with -Wl$(comma)-rpath$(comma)$(LIBDIR).")

uninstall: man                  ## takes away what install has put there
	rm -f $(addprefix $(to_include)/,$(notdir $(public_headers))) $(to_bin)/$(notdir $(program)) \
	    $(addprefix $(to_lib)/,$(notdir $(lib_a) $(side_a) $(versioned) $(shared))) \
	    $(addprefix $(to_lib)/pkgconfig/counterpoint,.pc $(sides:%=-%.pc)) \
	    $(addprefix $(to_cmake)/,$(notdir $(wildcard cmake/*.cmake))) \
	    $(addprefix $(to_lib)/counterpoint/,$(notdir $(private_so))) \
	    $(addprefix $(DESTDIR),$(BASHDIR)/counterpoint $(ZSHDIR)/_counterpoint $(FISHDIR)/counterpoint.fish)
	cd $(man) && printf '%s\0' man*/* | (cd $(abspath $(to_man)) 2> /dev/null && xargs -0 rm -f) || true
	for folder in $(to_include) $(to_cmake) $(to_lib)/counterpoint; do \
	    [ ! -d $$folder ] || rmdir --ignore-fail-on-non-empty $$folder || exit; done

-include $(objects:.o=.d)
