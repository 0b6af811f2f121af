# make demo | make quick | make test | make lint | make format | make docs | make bench | make soak | make history | make fuzz | make crash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ALL_EXTRAS := avro,clients,connect,demo,dev,keyring,msk,protobuf,schemas,spark,sql
EXTRAS ?= $(ALL_EXTRAS)
# The versions and hashes of everything that these extras need, for Python 3.11 and later: `make lock` makes them anew.
KERNEL_EXTRAS := dev,protobuf,schemas,sql
LOCK = $(if $(filter $(ALL_EXTRAS),$(EXTRAS)),.ci/lock/all.txt,$(if $(filter $(KERNEL_EXTRAS),$(EXTRAS)),.ci/lock/kernel.txt))
WORKERS ?= 5
# Tests wait for servers half of the time, so there are more workers than cores. Those that share little are dealt in equal parts, and a worker that has ended takes over
# from others; those that share a cluster or a Spark session stay together; times and kills want the machine for themselves. tests/architecture belongs to `make lint`.
WAITERS ?= 7
SMALL := tests/unit tests/faults tests/cli tests/fuzz tests/crash
HISTORIES := tests/history
KILLS := tests/soak tests/scenarios/test_broker_scale.py
ALONE := $(HISTORIES) $(KILLS)
LARGE := $(addprefix --ignore=,$(SMALL) $(ALONE) tests/architecture tests/registry tests/matrix tests/yarn tests/pipeline/test_pipeline_table_kills.py)
CHECK_PYTHON = $(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "kafkatools needs Python 3.11 or later, this is " + sys.version.split()[0])'
NEWEST = PYTHON="$$(sh .ci/find-pythons newest)" VENV="$$(sh .ci/venv-for newest $(VENV))"
JAVA = JAVA_HOME="$$(sh .ci/find-java)"
# What reaches a kernel: core itself, the search, the dumps, the two consoles.
KERNELS := tests/unit/core tests/unit/tools/search $(wildcard tests/cli/test_dump_log*.py tests/cli/test_console_*.py tests/cli/test_cli_console_*.py)

# Kernels that were compiled before, also in another clone, come from ccache where it is installed.
ifneq ($(shell command -v ccache && command -v cc),)
ifeq ($(origin CC),default)
export CC := ccache cc
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
endif
endif

# Every command of a test and every broker is a process. Without bytecode on the disk each compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: environment demo quick test test-registry test-spark-matrix test-yarn test-small test-large test-alone test-histories test-kills test-pure test-pythons test-oldest test-newest setup-oldest setup-newest dependencies kernels-newest prepare-large bytecode bytecode-newest lint format docs bench soak history franz-tests fuzz crash mutation coverage clean programs tools kerberos official-spark setup install-check lock

setup: $(STAMP)

environment: $(VENV)/.created

$(VENV)/.created:
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' .ci/lock/release.txt > $(VENV)/uv.txt
	@$(BIN)/pip install -q --no-deps --require-hashes -r $(VENV)/uv.txt || echo "uv cannot be installed; pip installs the packages" >&2
	@touch $@

# What the package and its build need, without the package. Several environments can install it at the same time. The package itself has to
# be installed in one after the other: its kernels are made in the source tree.
DEPENDENCIES = $(VENV)/.dependencies$(addprefix -,$(basename $(notdir $(LOCK))))
dependencies: $(DEPENDENCIES)

# Without bytecode: compiling all modules of these packages takes 30 s of processor time; Python compiles those that are imported.
# What the lock file lacks, because pyproject.toml names more than at the last `make lock`, is installed from what its versions allow.
$(DEPENDENCIES): $(VENV)/.created pyproject.toml $(LOCK)
	$(if $(LOCK),$(BIN)/python .ci/install --no-deps --require-hashes -r $(LOCK))
	$(BIN)/python .ci/requirements $(EXTRAS) > $(VENV)/requirements.txt
	$(BIN)/python .ci/install -r $(VENV)/requirements.txt
	@touch $@

# Other extras do not change the package.
$(VENV)/.package: pyproject.toml setup.py $(wildcard kafkatools/core/*/_*.py kafkatools/core/*/_*.pxd) | $(DEPENDENCIES)
	$(BIN)/pip install -q --no-deps --no-build-isolation --config-settings editable_mode=compat -e .
	@touch $@

$(STAMP): $(DEPENDENCIES) $(VENV)/.package
	@touch $@

# In the environment of the tests if it is there, otherwise in a small one: the package without extras and without compiled
# kernels, which would take most of the time, and the rows.
demo: $(if $(wildcard $(STAMP)),setup,.venv-demo/.installed)
	@$(JAVA) $(if $(wildcard $(STAMP)),$(BIN),.venv-demo/bin)/python -m demo

.venv-demo/.installed: pyproject.toml setup.py $(wildcard kafkatools/core/*/_*.py kafkatools/core/*/_*.pxd)
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-demo
	KT_PURE_PYTHON=1 .venv-demo/bin/pip install -q --config-settings editable_mode=compat -e .
	.venv-demo/bin/pip install -q --no-deps $$($(PYTHON) .ci/requirements --only demo)
	@touch $@

programs:
	@sh .ci/ensure-tools

# They do not need the package installed, so that kernels can be compiled at the same time.
tools: $(DEPENDENCIES) programs
	@cd tests && export KT_PURE_PYTHON=1 PYTHONPATH=.. && ../$(BIN)/python -m support.apache_kafka && ../$(BIN)/python -m support.kafkajs

# Spark 4.0.0 with its connector, the packages of tables, and an archive of the classes that sessions load: none of it is for the small stage.
official-spark: $(STAMP) programs
	@cd tests && ../$(BIN)/python -m support.official_spark

# The tests with a Kerberos server are in the large stage. gssapi is compiled here; optimizing it takes a minute of processor time.
kerberos: $(STAMP) programs
	@! command -v krb5-config >/dev/null || CFLAGS='-O0 -g0' $(BIN)/pip install -q $$($(BIN)/python .ci/requirements --only gssapi)

# Where the system's processes can be copied, tests are collected once (tests/support/forks.py); elsewhere each worker of pytest-xdist collects them.
SHARES = $(if $(filter Linux,$(shell uname)),--forks $(1),-n $(1) --dist worksteal)
GROUPS = $(if $(filter Linux,$(shell uname)),--forks $(1) --groups,-n $(1) --dist loadgroup --no-loadscope-reorder)

# What one runs after each change: units and commands, in the processes of the tests, without those that are slow. They wait four fifths of the time.
# Test files of which it leaves out all tests are not imported.
QUICK_WORKERS ?= 10
QUICK_IGNORED = $(shell grep -lrE '^pytestmark = .*(slow|real_kafka|processes)' tests/unit tests/cli --include='*.py')
quick: setup
	$(BIN)/python .ci/pytest $(call SHARES,$(QUICK_WORKERS)) tests/unit tests/cli $(addprefix --ignore=,$(QUICK_IGNORED)) -m "not slow and not real_kafka and not processes" $(PYTEST_ARGS)

test:
	$(MAKE) test-small
	$(MAKE) test-large
	$(MAKE) test-alone

test-small: setup tools
	$(BIN)/python .ci/pytest $(call SHARES,$(WORKERS)) $(SMALL) $(PYTEST_ARGS)

test-large: setup tools kerberos official-spark
	$(JAVA) $(BIN)/python .ci/pytest $(call GROUPS,$(WAITERS)) $(LARGE) $(PYTEST_ARGS)

# Histories and kills wait for sessions and elections most of the time: two tests at once, never two of one kind.
test-alone: setup tools
	$(MAKE) -j 2 test-histories test-kills

test-histories: setup tools
	$(JAVA) $(BIN)/python .ci/pytest $(HISTORIES) $(PYTEST_ARGS)

test-kills: setup tools
	$(JAVA) $(BIN)/python .ci/pytest $(KILLS) $(PYTEST_ARGS)

test-pure: $(STAMP)
	KT_PURE_PYTHON=1 $(BIN)/python .ci/pytest $(call SHARES,$(WORKERS)) $(KERNELS) -m "not real_kafka and not clients" $(PYTEST_ARGS)

# The oldest Python of this machine runs the tests of the kernels uncompiled, the newest the small stage of `make test`. Each takes the virtual environment $(VENV)
# if its Python is the same, otherwise one of its own.
test-pythons: test-oldest test-newest

setup-oldest:
	KT_PURE_PYTHON=1 $(MAKE) setup PYTHON="$$(sh .ci/find-pythons oldest)" VENV="$$(sh .ci/venv-for oldest $(VENV))" EXTRAS=$(KERNEL_EXTRAS)

test-oldest: setup
	KT_PURE_PYTHON=1 $(MAKE) test-pure PYTHON="$$(sh .ci/find-pythons oldest)" VENV="$$(sh .ci/venv-for oldest $(VENV))" EXTRAS=$(KERNEL_EXTRAS)

# What test-large needs besides `tools`.
prepare-large: setup official-spark kerberos bytecode

# Bytecode of the package, once: without it each of the parallel processes would make it.
bytecode: setup
	$(BIN)/python -m compileall -q kafkatools

bytecode-newest:
	$(MAKE) bytecode $(NEWEST)

setup-newest:
	$(MAKE) setup $(NEWEST)

# The package with what tests of kernels need: it is compiled while PySpark, the largest of the others, is downloaded.
kernels-newest:
	$(MAKE) setup $(NEWEST) EXTRAS=$(KERNEL_EXTRAS)

test-newest:
	$(MAKE) test-small $(NEWEST)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=examples/pytest_suite $(BIN)/mypy --explicit-package-bases examples
	$(BIN)/lint-imports --no-cache
	$(BIN)/bandit -q -c pyproject.toml -r kafkatools
	$(BIN)/python .ci/audit .ci/lock/all.txt
	$(BIN)/python -m pytest -q tests/architecture

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/generate_messages.py
	$(BIN)/python docs/generate_man.py
	$(BIN)/python docs/generate_pictures.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

# What only the site needs is installed beside the rest, and is no part of what the tests need.
$(VENV)/.installed-docs: $(STAMP)
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > $@.txt
	$(BIN)/pip install -q -r $@.txt
	@touch $@

soak: setup tools
	KT_SOAK_KILLS=$${KT_SOAK_KILLS:-200} KT_SOAK_SECONDS=$${KT_SOAK_SECONDS:-600} $(BIN)/python -m pytest tests/soak -s $(PYTEST_ARGS)

history: setup tools
	KT_HISTORY_SECONDS=$${KT_HISTORY_SECONDS:-600} $(BIN)/python -m pytest tests/history/test_history_run.py -s $(PYTEST_ARGS)
	KT_KILL_ALLS=$${KT_KILL_ALLS:-20} $(BIN)/python -m pytest tests/history/test_kill_all.py -s $(PYTEST_ARGS)

# Tests of franz-go's own package against the embedded broker; they need Go.
franz-tests: $(STAMP)
	$(BIN)/python tests/scenarios/franz_own_tests.py

# KT_FUZZ_SEED chooses the run; what is found lies in fuzz-findings/ and belongs into tests/fuzz/corpus when it is mended.
fuzz: $(STAMP)
	KT_FUZZ_SECONDS=$${KT_FUZZ_SECONDS:-600} KT_FUZZ_FLIPS=$${KT_FUZZ_FLIPS:-followed} $(BIN)/python -m pytest -n 2 tests/fuzz tests/cli/test_dump_log_flips.py $(PYTEST_ARGS)

# KT_CRASH_SEED chooses the courses.
crash: $(STAMP)
	KT_CRASH_STATES=$${KT_CRASH_STATES:-50000} $(BIN)/python -m pytest -n 2 tests/crash $(PYTEST_ARGS)

# The lock files, with hashes, for every Python from 3.11 and every system: pins what is new in pyproject.toml and leaves the rest; with UPGRADE=--upgrade
# everything gets its newest version.
lock: .venv-release/.installed
	.venv-release/bin/python .ci/requirements $(ALL_EXTRAS) | .venv-release/bin/uv pip compile $(LOCK_FLAGS) -o .ci/lock/all.txt -
	.venv-release/bin/python .ci/requirements $(KERNEL_EXTRAS) | .venv-release/bin/uv pip compile $(LOCK_FLAGS) -c .ci/lock/all.txt -o .ci/lock/kernel.txt -
	.venv-release/bin/python .ci/requirements --only package | .venv-release/bin/uv pip compile $(LOCK_FLAGS) -c .ci/lock/all.txt -o packaging/lock/package.txt -
	.venv-release/bin/python .ci/requirements --only build | .venv-release/bin/uv pip compile $(LOCK_FLAGS) -c .ci/lock/all.txt -o packaging/lock/build.txt -
	.venv-release/bin/python .ci/requirements --only release,build | .venv-release/bin/uv pip compile $(LOCK_FLAGS) -c packaging/lock/build.txt -o .ci/lock/release.txt -

LOCK_FLAGS = --quiet $(UPGRADE) --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

.venv-release/.installed: $(wildcard .ci/lock/release.txt)
	$(PYTHON) -m venv .venv-release
	.venv-release/bin/pip install -q $(if $(wildcard .ci/lock/release.txt),--require-hashes -r .ci/lock/release.txt,$$($(PYTHON) .ci/requirements --only release))
	@touch $@

include packaging/shipping.mk

install-check:
	sh .ci/install-check $(PYTHON)

# Against a real schema registry, which Maven fetches: 140 MB, too large for each run of the suite. RECORD=1 makes the recordings anew.
test-registry: setup
	$(JAVA) KT_RECORD=$(RECORD) $(BIN)/python -m pytest tests/registry $(PYTEST_ARGS)

# The sources, the sink and jobs under each PySpark 4.x and each Python of the machine; WRITE=--write writes the table of docs/pipeline.md.
# Each PySpark is a download of 450 MB.
test-spark-matrix: setup
	$(JAVA) $(BIN)/python .ci/spark-matrix $(WRITE)

# By spark-submit on Apache Hadoop's YARN, a download of 65 MB; it takes minutes.
test-yarn: setup
	$(JAVA) $(BIN)/python -m pytest tests/yarn $(PYTEST_ARGS)

# A random sample of mutations of records, log, producer and group coordinators: `make mutation MUTATION_ARGS="--count 50 --seed 1 log"`.
mutation: setup
	$(BIN)/pip install -q 'cosmic-ray>=8.4'
	nice $(BIN)/python .ci/mutation $(MUTATION_ARGS)

# These stages of `make test` on the newest Python, where measuring lines costs little; every process that a test starts measures those that it runs. Then a table
# by area and by module. The second stage is for the kernels, whose compiled form cannot be measured. KT_COVERAGE_BRANCHES=true measures branches too, which takes
# several times as long before Python 3.14. What a test ran that times out here still counts.
COVERAGE_STAGES ?= test-small test-pure test-large
coverage: $(VENV)/.created
	rm -rf build/coverage
	$(MAKE) $(NEWEST) setup tools kerberos official-spark
	-COVERAGE_PROCESS_START="$(CURDIR)/pyproject.toml" COVERAGE_CORE=$(if $(filter true,$(KT_COVERAGE_BRANCHES)),ctrace,sysmon) \
		$(MAKE) -k $(NEWEST) $(COVERAGE_STAGES) PYTEST_ARGS="$(PYTEST_ARGS) -o timeout=900"
	"$$(sh .ci/venv-for newest $(VENV))"/bin/python .ci/coverage

bench: $(STAMP) tools official-spark
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

clean:
	rm -rf $(VENV) .venv-oldest .venv-newest .venv-demo build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f kafkatools/core/_*.c kafkatools/core/_*.so kafkatools/core/*/_*.c kafkatools/core/*/_*.so kafkatools/_version.py
