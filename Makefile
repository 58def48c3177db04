# `make help` lists the targets. Everything is built below target/; target/dist has the layout of an
# installation.

PREFIX    ?= /usr/local
DESTDIR   ?=
CARGO     ?= cargo
PROFILE   ?= release
DIST      := $(CURDIR)/target/dist
# The system's, for which Debian has the packages; else the one that is there.
PYTHON    ?= $(shell command -v /usr/bin/python3 || command -v python3)
FORTRAN   ?= gfortran
EXAMPLES  := $(CURDIR)/target/examples
PROFILE_FLAG := --profile $(PROFILE)
BUILT     := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
# What the tests take from Debian.
PACKAGES  := build-essential cmake pkgconf gfortran g++ openmpi-bin libopenmpi-dev mpich libmpich-dev \
             libhdf5-openmpi-dev libhdf5-mpich-dev libclang-dev ca-certificates curl git iproute2 util-linux e2fsprogs procps python3 python3-dev \
             python3-pip python3-setuptools python3-wheel python3-mpi4py python3-numpy python3-h5py \
             slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins openssh-server \
             openssh-client valgrind
C_FLAGS   := -O2 -Wall -Wextra
# Names that the manuals give the commands: links to scr.
CLASSIC   := scr_check_node scr_cntl_dir scr_copy scr_env scr_flush scr_flush_file scr_glob_hosts \
             scr_halt scr_index scr_list_dir scr_list_down_nodes scr_log_event scr_postrun scr_prerun \
             scr_print scr_print_hash_file scr_rebuild_xor scr_retries_halt scr_run scr_scavenge \
             scr_should_exit scr_srun scr_test_runtime scr_transfer
VERSION   := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
RUST      := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# The targets that take all of them; all others but demo and deb do with a C compiler and Rust.
TESTS     := $(filter deps test test-% faults lint bench python-mpich,$(MAKECMDGOALS))
# Where rustup puts it; a shell that was open before does not look there.
export PATH := $(HOME)/.cargo/bin:$(PATH)
# What it says of paths is in its head.
export RUSTC_WRAPPER := $(CURDIR)/packaging/rustc.sh

.PHONY: help deps build browser python-mpich sim-library product interfaces examples
.PHONY: demo test test-full test-cluster test-apps faults lint bench install dist deb clean
.DEFAULT_GOAL := build

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## deps: install what tests need (root on Debian or Ubuntu), or print the commands
deps:
	@CARGO=$(CARGO) PYTHON=$(PYTHON) sh packaging/needs.sh $(RUST) $(if $(TESTS),all $(PACKAGES),some $(TOOLS))

## build: the shim, the engine, the scr command, and the examples for each MPI that is there
build: deps product sim-library interfaces examples

product: deps
	$(CARGO) build $(PROFILE_FLAG)
	@mkdir -p $(DIST)/bin $(DIST)/lib
	@cp -f target/$(BUILT)/scr $(DIST)/bin/scr.new && mv -f $(DIST)/bin/scr.new $(DIST)/bin/scr
	@$(DIST)/bin/scr manual $(DIST)/share
	@for name in libscr.so libscr_preload.so; do cp -f target/$(BUILT)/$$name $(DIST)/lib/$$name.new && \
	  mv -f $(DIST)/lib/$$name.new $(DIST)/lib/$$name || exit 1; done

# For the ranks on virtual nodes; see the head of its source.
sim-library: deps
	@mkdir -p $(DIST)/lib/scr/sim
	cc $(C_FLAGS) -shared -fPIC -o $(DIST)/lib/scr/sim/libshared_cores.so.new src/cli/sim/shared_cores.c
	@mv -f $(DIST)/lib/scr/sim/libshared_cores.so.new $(DIST)/lib/scr/sim/libshared_cores.so

# What programs that call SCR are built with, beside the library: headers, module file, package,
# manual pages.
interfaces: deps
	@mkdir -p $(addprefix $(DIST)/,include lib/pkgconfig lib/cmake/scr lib/python/scr share/man share/scr/rust/src)
	@cp -f src/api/include/* $(DIST)/include/
	@if command -v $(FORTRAN) >/dev/null; then cd $(DIST)/include && $(FORTRAN) -fsyntax-only scr.f90; \
	  else echo "no $(FORTRAN): without the module file of scr.f90"; fi
	@cp -f src/api/package/scr.pc $(DIST)/lib/pkgconfig/
	@cp -f src/api/package/*.cmake $(DIST)/lib/cmake/scr/
	@cp -f src/api/python/scr/*.py $(DIST)/lib/python/scr/
	@cp -f src/api/rust/Cargo.toml src/api/rust/build.rs $(DIST)/share/scr/rust/
	@cp -f src/api/rust/src/*.rs $(DIST)/share/scr/rust/src/
	@if [ -n "$(PYTHON)" ]; then $(PYTHON) src/api/package/manual.py docs/api.md $(DIST)/share/man; \
	  else echo "no python3: without the manual pages of SCR's calls"; fi

# Debian has the compilers of each MPI under names of their own; elsewhere there is one mpicc at a
# time, and it may be another one's than the last time.
examples: product interfaces
	@built=; for at in .openmpi .mpich ""; do \
	  mpicc=$$(command -v mpicc$$at) || continue; \
	  if [ -z "$$at" ] && [ -n "$$built" ]; then continue; fi; \
	  built=$(EXAMPLES)/$$([ -n "$$at" ] && echo $${at#.} || echo mpi)/built; \
	  [ "$$(cat $$built 2>/dev/null)" = "$$mpicc" ] || rm -f $$built; \
	  $(MAKE) -s $$built MPICC=$$mpicc SUFFIX=$$at || exit 1; \
	done; \
	[ -n "$$built" ] || echo "no mpicc: without the examples (an MPI: apt-get install libopenmpi-dev," \
	  "dnf install openmpi-devel, zypper install openmpi4-devel; then it has to be in PATH)"
$(EXAMPLES)/%/built: $(wildcard examples/* examples/rust/* src/api/include/* src/api/rust/* src/api/rust/src/*)
	SCR_ROOT=$(DIST) CARGO=$(CARGO) CARGO_TARGET_DIR=$(CURDIR)/target/rust sh examples/build.sh $(@D) $(SUFFIX)
	@echo $(MPICC) > $@

# Opens the pages of scr report in test-full.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } || \
	  { echo "missing package; as root: apt-get install --no-install-recommends chromium"; exit 1; }

# Debian's mpi4py is built for Open MPI; the tests of the Python examples under MPICH need another. It
# is one large C file that nobody computes with: unoptimised it is there in a third of the time.
MPI4PY_VERSION := 3.1.6
python-mpich: target/python-mpich/mpi4py
target/python-mpich/mpi4py: | deps
	MPICC=mpicc.mpich CFLAGS='-O0 -g0' $(PYTHON) -m pip install --quiet --root-user-action=ignore --no-cache-dir \
	  --no-binary mpi4py --no-build-isolation --no-deps --target target/python-mpich.new \
	  mpi4py==$(MPI4PY_VERSION)
	@rm -rf target/python-mpich && mv target/python-mpich.new target/python-mpich

## demo: virtual nodes, a lost node, a restart from the cache (root, two minutes)
demo: TOOLS := openmpi-bin libopenmpi-dev python3 iproute2 util-linux
demo: build
	python3 tests/demo.py

## test: everything CI runs, on both MPIs, with nodes that die (root); the last line is the summary
test: build python-mpich
	python3 tests/run.py

## test-full: the same with every case on both MPIs, where `test` takes them in turn; packages (root)
test-full: build python-mpich browser
	python3 tests/run.py --full

## test-cluster: the matrix of failures on virtual nodes, every case on both MPIs (root)
test-cluster: build python-mpich
	python3 tests/run.py cluster

## test-apps: LAMMPS, OpenFOAM, Quantum ESPRESSO, HDF5, netCDF, ..., also with lost nodes (root)
test-apps: build python-mpich
	python3 tests/run.py apps

## faults: every file call of a rank fails in its turn, where `test` draws a twentieth (root; an hour)
faults: build
	python3 tests/faults/faults.py --whole

## lint: rustfmt, clippy and rustdoc, warnings are errors; the fuzz targets compile
lint: deps
	$(CARGO) fmt --all --check
	$(CARGO) clippy --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --no-deps --document-private-items
	MPICC=mpicc.openmpi $(CARGO) clippy -p scr-mpi-values --all-targets --target-dir target/lint -- -D warnings
	$(CARGO) fmt --manifest-path examples/rust/Cargo.toml --all --check
	$(CARGO) clippy --manifest-path src/api/rust/Cargo.toml --target-dir target/lint -- -D warnings
	MPICC=mpicc.openmpi $(CARGO) clippy --manifest-path examples/rust/Cargo.toml --target-dir target/lint -- -D warnings
	CUSTOM_LIBFUZZER_PATH=not/linked.a $(CARGO) check --quiet --manifest-path fuzz/Cargo.toml \
	  --target-dir target/fuzz

## bench: side by side in one run, as ratios; LAMMPS and OpenFOAM with and without the shim
bench: build
	python3 tests/bench.py
	python3 tests/apps/overhead.py

# Where Python looks below PREFIX, if there is a Python.
PYTHON_DIR ?= $(or $(if $(PYTHON),$(PYTHON_PLACE)),$(PREFIX)/lib/python)
PYTHON_PLACE = $(shell $(PYTHON) -c 'import site, sys, sysconfig; at = sys.argv[1]; \
  here = [path for path in site.getsitepackages() if path.startswith(at + "/")]; \
  print(here[0] if here else sysconfig.get_path("purelib", "posix_prefix", {"base": at}))' $(PREFIX))

# The symbols would be nine tenths of it.
STRIP     ?= strip
INSTALL   := install -m 755 -s --strip-program=$(STRIP)

## install: to PREFIX (default /usr/local)
install: build
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/share/scr
	$(INSTALL) $(DIST)/bin/scr $(DESTDIR)$(PREFIX)/bin/scr
	for name in $(CLASSIC); do ln -sf scr $(DESTDIR)$(PREFIX)/bin/$$name; done
	$(INSTALL) $(DIST)/lib/libscr.so $(DIST)/lib/libscr_preload.so $(DESTDIR)$(PREFIX)/lib/
	install -d $(DESTDIR)$(PREFIX)/lib/scr/sim
	$(INSTALL) $(DIST)/lib/scr/sim/libshared_cores.so $(DESTDIR)$(PREFIX)/lib/scr/sim/
	cp -r config examples $(DIST)/share/scr/rust $(DESTDIR)$(PREFIX)/share/scr/
	sed -i 's|\.\./src/api/rust|../rust|' $(DESTDIR)$(PREFIX)/share/scr/examples/rust/Cargo.toml
	install -d $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PYTHON_DIR)/scr
	cp -r $(DIST)/include/. $(DESTDIR)$(PREFIX)/include/
	cp -r $(DIST)/lib/pkgconfig $(DIST)/lib/cmake $(DESTDIR)$(PREFIX)/lib/
	cp -r $(addprefix $(DIST)/share/,man bash-completion zsh fish) $(DESTDIR)$(PREFIX)/share/
	install -m 644 $(DIST)/lib/python/scr/*.py $(DESTDIR)$(PYTHON_DIR)/scr/
	install -d $(DESTDIR)$(PREFIX)/share/modules/modulefiles/scr
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PYTHON_DIR@|$(PYTHON_DIR)|' \
	  packaging/modulefiles/scr > $(DESTDIR)$(PREFIX)/share/modules/modulefiles/scr/$(VERSION)
	@# Who became root by a plain su has no sbin in PATH.
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then PATH=$$PATH:/usr/sbin:/sbin ldconfig; fi

# What runs on any Linux is linked by zig, which knows what each version of the C library has. For
# another machine: TRIPLE=aarch64-unknown-linux-gnu OBJCOPY=aarch64-linux-gnu-objcopy
# STRIP=aarch64-linux-gnu-strip, with that target of Rust's.
TRIPLE    ?= $(shell uname -m)-unknown-linux-gnu
GLIBC     := 2.17
OBJCOPY   ?= objcopy
ZIG       := $(CURDIR)/target/zig
ANY       := $(CURDIR)/target/any/$(TRIPLE)
TARBALL   := $(CURDIR)/target/tarball
RELEASE   := scr-$(VERSION)-$(firstword $(subst -, ,$(TRIPLE)))
BINARIES  := bin/scr lib/libscr.so lib/libscr_preload.so lib/scr/sim/libshared_cores.so
$(ZIG)/bin/cargo-zigbuild: | deps
	$(PYTHON) -m pip install --quiet --root-user-action=ignore --no-cache-dir \
	  --target $(ZIG).new ziglang==0.17.1 cargo-zigbuild==0.24.1
	@rm -rf $(ZIG) && mv $(ZIG).new $(ZIG)

## dist: a tarball for any Linux with glibc 2.17 or later, in target/tarball; its symbols beside it
dist: TOOLS := python3-pip binutils
dist: interfaces $(ZIG)/bin/cargo-zigbuild
	PATH=$(ZIG)/bin:$$PATH CARGO_ZIGBUILD_ZIG_PATH=$(ZIG)/ziglang/zig CFLAGS=-g0 \
	  $(CARGO) zigbuild --release --target $(TRIPLE).$(GLIBC) --target-dir target/any
	rm -rf $(ANY)/dist && mkdir -p $(ANY)/dist
	cp -r $(DIST)/include $(DIST)/lib $(DIST)/share $(ANY)/dist/
	mkdir -p $(ANY)/dist/bin && cp $(ANY)/release/scr $(ANY)/dist/bin/
	cp $(ANY)/release/libscr.so $(ANY)/release/libscr_preload.so $(ANY)/dist/lib/
	mkdir -p $(ANY)/dist/lib/scr/sim && $(ZIG)/ziglang/zig cc -target $(subst -unknown,,$(TRIPLE)).$(GLIBC) \
	  $(C_FLAGS) -shared -fPIC -o $(ANY)/dist/lib/scr/sim/libshared_cores.so src/cli/sim/shared_cores.c
	$(EMULATOR) $(ANY)/dist/bin/scr manual $(ANY)/dist/share
	sh packaging/oldest.sh $(GLIBC) $(addprefix $(ANY)/dist/,$(BINARIES))
	rm -rf $(TARBALL) && mkdir -p $(TARBALL)
	$(MAKE) -s --old-file=build install DIST=$(ANY)/dist DESTDIR=$(TARBALL)/$(RELEASE) PREFIX= PYTHON_DIR=/lib/python
	@# None may name a directory of this machine. (What zig itself links in does, in the symbols.)
	! grep -lF -e '$(CURDIR)' -e "$${CARGO_HOME:-$$HOME/.cargo}" $(addprefix $(TARBALL)/$(RELEASE)/,$(BINARIES))
	at='[file normalize [file dirname $$ModulesCurrentModulefile]/../../../..]'; \
	  sed "s|{@PREFIX@}|$$at|; s|@VERSION@|$(VERSION)|; s|{@PYTHON_DIR@}|"'$$prefix/lib/python|' packaging/modulefiles/scr \
	  > $(TARBALL)/$(RELEASE)/share/modules/modulefiles/scr/$(VERSION)
	mkdir -p $(TARBALL)/$(RELEASE)/share/doc && cp -r docs $(TARBALL)/$(RELEASE)/share/doc/scr
	cp README.md CHANGELOG.md LICENSE-* $(TARBALL)/$(RELEASE)/
	for file in $(BINARIES); do at=$(TARBALL)/$(RELEASE)-symbols/$$file.debug; mkdir -p $${at%/*} && \
	  $(OBJCOPY) --only-keep-debug --compress-debug-sections $(ANY)/dist/$$file $$at && \
	  $(OBJCOPY) --add-gnu-debuglink=$$at $(TARBALL)/$(RELEASE)/$$file || exit 1; done
	for name in $(RELEASE) $(RELEASE)-symbols; do \
	  tar -C $(TARBALL) --owner=0 --group=0 -czf $(TARBALL)/$$name.tar.gz $$name || exit 1; done
	@ls -l $(TARBALL)/*.gz

# Who answers for the packages that are made here, as Debian's own tools are told it; and where they
# are put.
DEBFULLNAME ?= The SCR developers
DEBEMAIL    ?= scr@example.org
PACKAGER    ?= $(DEBFULLNAME) <$(DEBEMAIL)>
DEB      ?= $(CURDIR)/target/deb
## deb: packages for Debian, in target/deb: scr, scr-dev
deb: TOOLS := debhelper gfortran python3
deb: build
	rm -rf $(DEB) && mkdir -p $(DEB)/scr
	cp -r packaging/debian README.md CHANGELOG.md docs $(DEB)/scr/
	cd $(DEB)/scr/debian && sed -i 's|@VERSION@|$(VERSION)|; s|@PACKAGER@|$(PACKAGER)|; s|@DATE@|'"$$(date -R)"'|' \
	  control changelog
	$(MAKE) --old-file=build install DESTDIR=$(DEB)/scr/tree PREFIX=/usr \
	  PYTHON_DIR=/usr/lib/python3/dist-packages
	cd $(DEB)/scr && debian/rules binary

## clean: remove everything that was built
clean:
	rm -rf target
