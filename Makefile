# make run      set up everything and watch a real model train (PRESET=name for another preset)
# make test     everything that is checked: lint, types, import contracts, tests
# make test-quick    a minute for whoever changes a room: ROOM=runners/cost, or what differs from main
# make test-oldest   unit and process tests on Python 3.10, where there is one, with the oldest libraries that are supported
# make test-newest   the same with the newest of every dependency, and which differ from constraints.txt
# make coverage which lines of tui and runners the tests run, in all processes: build/coverage/report.md
# make lock     constraints.txt anew: the versions that make takes
# make install  only the set-up     make bench  the bench tables, each row beside the run before     make screenshots  the README's pictures     make recording  docs/tutorial.cast     make fuzz  damaged files for every reader
# make packages wheel and sdist, installed by pip, uv and pipx in every Python from 3.10 on that is here
# make site     docs/ as pages of HTML, in build/site; a link that leads nowhere is an error
# make docs     the reference pages of docs/ from what the program says
# make guides   the users' guides, walked from top to bottom, trainings too, and the table of their rows
# make mutants  broken lines of costs, scheduling, guard and supervisor: how many the tests notice
# make soak     days of use in a quarter of an hour: memory, files, processes
# make logouts  logouts, a shutdown and a boot under a real systemd, in a container (root; Debian)
# make kills    SIGKILL a thousand times to every process of ours, and what must hold holds

PYTHON ?= python3
PRESET ?= gaussian-validate
VENV   := .venv
BIN    := $(VENV)/bin
KFD    := /dev/kfd
ROCM   := /opt/rocm
STAMP  := $(VENV)/installed
# Where the packages of a Python lie: of one that is an environment itself, as in many images, a second sees none.
LENT   := import site; print(*site.getsitepackages(), sep="\n")
OWN    := import sysconfig; print(sysconfig.get_path("purelib"))
# Tests wait for processes more than they compute: six workers keep two cores busy.
WORKERS ?= 6

.PHONY: run install test test-quick test-random test-oldest test-newest coverage lock bench guides docs fuzz money kills logouts mutants soak packages site screenshots recording clean

run: $(STAMP)
	@if [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/fresnel-tui --launch $(PRESET); \
	else exec $(BIN)/fresnel-tui --no-ui launch $(PRESET) --follow; fi

install: $(STAMP)

# A Python that already imports torch (an image with a ROCm or CUDA build) lends it to the environment, untouched.
# Where AMD's driver is and no torch, the ordinary build would see no GPU: TORCH_INDEX says where one is that does.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "fresnel-tui needs Python 3.10 or newer; this is $$($(PYTHON) --version). Try make PYTHON=python3.12 …"; exit 2; }
	@if $(PYTHON) -c 'import torch' 2>/dev/null; then \
		echo "using the torch of $$(command -v $(firstword $(PYTHON)))"; \
		test -d $(VENV) || $(PYTHON) -m venv --system-site-packages $(VENV); \
		$(PYTHON) -c '$(LENT)' >"$$($(BIN)/python -c '$(OWN)')/lent.pth"; \
		$(BIN)/python -c 'import torch; print("torch==" + torch.__version__)' >$(VENV)/constraints.txt; \
	elif [ -e $(KFD) ] && [ -z "$(TORCH_INDEX)" ]; then \
		version=$$(cut -d. -f1,2 $(ROCM)/.info/version 2>/dev/null || true); \
		echo "This machine has AMD GPUs and $(PYTHON) has no torch: the build on PyPI would not see them."; \
		echo "Use the image's Python that has one (make PYTHON=…), or name the index of the build for your ROCm$${version:+ $$version}:"; \
		echo "  make install TORCH_INDEX=https://download.pytorch.org/whl/rocm$${version:-VERSION}"; \
		echo "Which indexes there are: https://pytorch.org/get-started/locally/"; \
		exit 2; \
	else \
		test -d $(VENV) || $(PYTHON) -m venv $(VENV); cp constraints.txt $(VENV)/constraints.txt; \
		if [ -n "$(TORCH_INDEX)" ]; then \
			$(BIN)/python -m pip install --quiet --disable-pip-version-check --index-url "$(TORCH_INDEX)" torch && \
			$(BIN)/python -c 'import torch; print("torch==" + torch.__version__)' >$(VENV)/constraints.txt; \
		fi; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(VENV)/constraints.txt -e '.[train,dev]'
	@touch $@

# Hundreds of short processes import the same modules: their bytecode is kept, whatever is set.
test test-quick test-random test-oldest coverage guides: export PYTHONDONTWRITEBYTECODE =

test: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	@# Types are checked while the tests are imported, which keeps one core busy.
	$(BIN)/python -m pytest -n $(WORKERS) & tests=$$!; \
	types=$$($(BIN)/mypy) || { kill $$tests; wait $$tests; echo "$$types"; exit 1; }; echo "$$types"; wait $$tests

# The tests of the rooms that changed, as far as they fit into a minute; make test decides.
test-quick: $(STAMP)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .
	@tests=$$($(BIN)/python -m tests.quick $(ROOM)) || exit; \
	if [ -z "$$tests" ]; then echo "no test names what was changed: make test"; exit 0; fi; \
	$(BIN)/python -m pytest -n $(WORKERS) $$tests

# Other examples of what must hold for any: make test draws the same ones each time.
test-random: $(STAMP)
	$(BIN)/python -m pytest -n $(WORKERS) -m hypothesis --hypothesis-profile=random

# The panel and the core on the oldest supported Python that can be found, in an environment of its
# own, with the oldest supported versions of what they need.
test-oldest:
	@for python in python3.10 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.10.*/bin/python none; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 10))' 2>/dev/null && break; \
	done; \
	if [ "$$python" = none ]; then echo "no Python 3.10 here: not tested on it"; exit 0; fi; \
	echo "on $$($$python --version)"; \
	{ test -d $(VENV)-oldest || $$python -m venv $(VENV)-oldest; } && \
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[oldest]' && \
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check $$($(VENV)-oldest/bin/python tests/least.py) && \
	$(VENV)-oldest/bin/python -m pytest -n $(WORKERS) tests/unit tests/process

# What a release of somebody else's will break: the newest of everything, whatever pyproject.toml allows.
NEWEST := $(VENV)-newest/bin/python -m pip
test-newest:
	test -d $(VENV)-newest || $(PYTHON) -m venv $(VENV)-newest
	$(NEWEST) install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[oldest]'
	$(NEWEST) install --quiet --disable-pip-version-check --upgrade textual textual-serve textual-image
	@$(NEWEST) freeze --exclude-editable | tr _ - | while read -r package; do \
		grep -qixF "$$package" constraints.txt || grep -qi "^$$package ;" constraints.txt || echo "not as locked: $$package"; \
	done
	$(VENV)-newest/bin/python -m pytest -n $(WORKERS) tests/unit tests/process

# An environment of its own: its interpreters measure themselves (tests/covered.py).
COVERED := $(VENV)-coverage/bin/python
coverage:
	@for python in python3.13 $${PYENV_ROOT:-$$HOME/.pyenv}/versions/3.13.*/bin/python none; do \
		$$python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null && break; \
	done; \
	if [ "$$python" = none ]; then echo "no Python 3.13 here: coverage is not measured"; exit 2; fi; \
	test -d $(VENV)-coverage || $$python -m venv $(VENV)-coverage
	$(COVERED) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[oldest,coverage]'
	$(COVERED) -m tests.covered clean
	$(COVERED) -m tests.covered run -n $(WORKERS) || true
	$(COVERED) -m tests.covered report >build/coverage/report.md
	@sed -n 1,4p build/coverage/report.md; echo build/coverage/report.md

# For every Python and platform that is supported. What a build of torch brings along is left to it.
TORCH ?= 2.13.0
lock: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.5'
	@echo 'torch==$(TORCH)' >$(VENV)/torch.txt
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --extra train --extra dev --extra oldest \
		--constraint $(VENV)/torch.txt --no-header --no-annotate --output-file $(VENV)/lock.txt pyproject.toml
	@{ echo '# The versions that make takes and the tests were seen with, written by `make lock`.'; echo 'torch==$(TORCH)'; \
		grep -vE '^(torch|triton|cuda-[a-z]+|nvidia-(cu|nc|nv)[a-z0-9-]*)==' $(VENV)/lock.txt; } >constraints.txt

bench: $(STAMP)
	$(BIN)/python tests/bench/run_all.py

# Every test that a row of a guide names; make test takes the steps that train no network.
guides: $(STAMP)
	$(BIN)/python -m tests.guides --walk --workers $(WORKERS)

# A night's worth of damaged files for every reader, and of random keys; make test takes 2,000.
FUZZ ?= 100000
fuzz: $(STAMP)
	FRESNEL_FUZZ=$(FUZZ) $(BIN)/python -m pytest -n $(WORKERS) --timeout 0 tests/fuzz

# Random days of money against a second reckoning; make test takes 60.
DAYS ?= 1000
money: $(STAMP)
	FRESNEL_MONEY_DAYS=$(DAYS) $(BIN)/python -m pytest -n $(WORKERS) --timeout 0 tests/unit/test_cost_days.py

# Launchers, waiters, supervisors, helpers; make test takes a few.
KILLS ?= 1000
kills: $(STAMP)
	$(BIN)/python tests/bench/kills.py --kills $(KILLS)
	$(BIN)/python tests/bench/guard_kills.py --kills $(KILLS)

MUTANTS ?= 60
mutants: $(STAMP)
	$(BIN)/python tests/bench/mutants.py --number $(MUTANTS)

MINUTES ?= 15
soak: $(STAMP)
	$(BIN)/python tests/bench/soak.py --minutes $(MINUTES)

site: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[site]'
	$(BIN)/python -m sphinx --fail-on-warning --quiet -c docs/site docs build/site
	@echo build/site/index.html

packages: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[packages]'
	$(BIN)/python -m tests.installations

# A Debian with systemd in a container: needs root, debootstrap and systemd-container.
logouts: $(STAMP)
	$(BIN)/python -m tests.logouts

# commands.md, the tables of keys and the types of the API, from what the program says.
docs: $(STAMP)
	$(BIN)/python docs/make_reference.py
	$(BIN)/python docs/make_stub.py

screenshots: $(STAMP)
	$(BIN)/python -m tests.ui.take_pictures

recording: $(STAMP)
	$(BIN)/python -m tests.ui.record_tutorial

clean:
	rm -rf $(VENV) $(VENV)-oldest $(VENV)-newest $(VENV)-coverage
