# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

SHELL := /bin/bash
PYTEST := .venv/bin/python -m pytest
# Laboratories at once, each with a process of tests; two processes more do what needs none, of which
# one helps then. Unit tests have so many processes and one more, since some of them wait.
WORKERS ?= 2
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo demo-down test unit faults check integration trials upgrade catalogue site release release-demo lab

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## two real hypervisors with a few guests on this machine, and a look at them
	@tests/bootstrap run
	@tests/demo up

demo-down: ## take the demonstration down, leaving nothing behind
	@tests/bootstrap run
	@tests/demo down

test: ## every test: unit, contract and laboratory
	@tests/bootstrap all
	@$(PYTEST) --numprocesses $$(($(WORKERS) + 2)) --dist loadgroup --durations 20 $(ARGS)

unit: ## tests that need neither a hypervisor nor a run of Ansible
	@tests/bootstrap unit
	@$(PYTEST) --numprocesses $$(($(WORKERS) + 1)) --dist loadfile tests/unit $(ARGS)

faults: ## tests of the tests: faults that are put into a copy, and found
	@tests/bootstrap unit
	@.venv/bin/python tests/seeded_faults.py $(ARGS)

check: ## lint, types, documentation, licences, packaging, runs and versions of Ansible
	@tests/bootstrap all
	@$(PYTEST) --durations 10 tests/contract $(ARGS)

integration: ## tests on a laboratory of real hypervisors
	@tests/bootstrap all
	@$(PYTEST) --durations 20 $(wildcard tests/integration tests/faults) $(ARGS)

trials: ## what chance is part of, FLEET_VIRT_TRIALS=N times (10), with counts
	@tests/bootstrap all
	@FLEET_VIRT_TRIALS=$${FLEET_VIRT_TRIALS:-10} $(PYTEST) -rP --durations 10 \
		$(or $(FILES),$(shell grep -rlE --include 'test_*.py' 'FLEET_VIRT_TRIALS|mark\.trials' tests/integration tests/faults tests/contract)) $(ARGS)

upgrade: ## what an earlier commit left is read, finished, changed, moved and purged
	@tests/bootstrap all
	@tests/lab/lab --name upgrade up 2
	@.venv/bin/python tests/upgrade.py $(ARGS); status=$$?; tests/lab/lab --name upgrade down; exit $$status

catalogue: ## the newest images, with their checksums, for the catalogue; ARGS="debian12 ..."
	@tests/bootstrap unit
	@PYTHONPATH=.venv/collections .venv/bin/python tests/catalogue.py $(ARGS)

site: ## the documentation site, in build/site
	@tests/bootstrap unit
	@PYTHONPATH=.venv/collections .venv/bin/python -m tests.documentation_site

release: ## VERSION=1.0.0-rc1 as a file, in build/release
	@tests/bootstrap unit
	@PYTHONPATH=.venv/collections .venv/bin/python -m tests.release $(VERSION) $(ARGS)

release-demo: ## the demonstration, from what VERSION of the release installs, with each Ansible
	@tests/bootstrap all
	@PYTHONPATH=.venv/collections .venv/bin/python -m tests.release_demo $(VERSION) $(ARGS)

lab: ## the laboratory's program, for example: make lab ARGS="up 2"
	@tests/bootstrap run
	@tests/lab/lab $(ARGS)
