# Artefacts of a release, in dist/: docs/releases.md says what they are. They are built from the last commit, not from changed files.
.PHONY: dist wheels pyz deb formula sbom image checksums release-check
RELEASE := .venv-release/bin
DIST := dist
TREE := build/tree
VERSION = $(shell ls $(DIST)/kafkatools-*.tar.gz | sed 's/.*kafkatools-\(.*\)\.tar\.gz/\1/')

dist: wheels pyz sbom checksums

wheels: .venv-release/.installed
	packaging/wheels $(DIST)

# packaging/wheels touches it when all wheels are there.
$(DIST)/.wheels:
	@echo "build the wheels first: make wheels" >&2; exit 1

$(TREE)/pythons: $(DIST)/.wheels packaging/site_tree.py packaging/lock/package.txt
	$(PYTHON) packaging/site_tree.py $(DIST) $(TREE) $$(sh .ci/find-pythons all)

pyz: $(TREE)/pythons
	$(PYTHON) packaging/build_pyz.py $(TREE) $(DIST)/kt.pyz

deb: $(TREE)/pythons
	packaging/debian/build $(TREE) $(VERSION) $(DIST)
	@$(MAKE) checksums

# The formula names the address of the source distribution: make formula FORMULA_URL=https://.../kafkatools-1.2.0.tar.gz
FORMULA_URL ?= file://$(CURDIR)/$(DIST)/kafkatools-$(VERSION).tar.gz
formula:
	$(PYTHON) packaging/homebrew/make_formula.py $(DIST)/kafkatools-$(VERSION).tar.gz $(FORMULA_URL) > $(DIST)/kafkatools.rb
	@$(MAKE) checksums

# What an installation without extras contains, and under which licences.
sbom: .venv-release/.installed
	packaging/sbom $(RELEASE) $(DIST)

checksums:
	cd $(DIST) && sha256sum $$(ls | grep -v SHA256SUMS) > SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS

ENGINE ?= $(shell command -v podman || command -v docker || command -v buildah)
# Podman and buildah keep the health check in images of Docker's format only.
image:
	$(ENGINE) build $(if $(filter docker,$(notdir $(ENGINE))),,--format docker) -f packaging/container/Containerfile -t kafkatools .

# Installs each artefact on its own and runs the first minute of README.md with it, with the Pythons of this machine, without a compiler and without Java.
release-check:
	$(PYTHON) packaging/release_check.py $(DIST)
