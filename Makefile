# Thin on purpose: every verb is one command that also works without make.
MAKEFLAGS += --no-print-directory
PYTHON ?= python3.11
MINUTES ?= 30
WORKERS ?= 3
CHEAP_S ?= 0.15
RUN := .venv/bin/python -m
TESTS := $(RUN) pytest --dist loadfile --no-loadscope-reorder
# Containers often set it; without byte code, every worker of pytest rewrites the assertions of all test files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup check test drill fuzz up down demo bench records

help: ## List the verbs
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

setup: ## Download and build everything; a second call takes a moment
	@$(PYTHON) -m millrace.machine.setup

check: setup ## Format, types, and the quick ones of the tests that start no server and build nothing
	$(RUN) ruff format --check .
	$(RUN) ruff check .
	$(RUN) mypy
	@if [ -d terraform ] && command -v terraform >/dev/null; then terraform fmt -check -recursive terraform; fi
	$(TESTS) -n $(WORKERS) -q --hypothesis-profile=few -m "not stack and not builds" --cheap-s $(CHEAP_S)

test: ## All tests, also those on real servers; the time of each is recorded; WORKERS=2 is slower and gentler
	@$(PYTHON) -m millrace.machine.setup --tests
	$(TESTS) -n $(WORKERS) -m "not drill" --measure

drill: ## Long tests that `make test` leaves out; NAME=... selects one, also one that takes hours
	@$(PYTHON) -m millrace.machine.setup --tests
	$(RUN) pytest $(if $(NAME),-m drill -k "$(NAME)",-m "drill and not hours")

fuzz: setup ## Property tests with new examples, then engines with new rules, for MINUTES=30; fails on a counterexample
	$(RUN) tests.fuzz $(MINUTES)

up: setup ## Start the default stack and wait until it is ready
	.venv/bin/millrace up

down: ## Stop the stack and keep its data
	.venv/bin/millrace down

demo: setup ## Start servers, deploy a pattern, send traffic, print alerts and the verdict; KEEP=1 leaves it running
	.venv/bin/millrace demo

bench: setup ## Measure each pattern on this machine: 100,000 events at 1,000 a second, with a verdict
	$(RUN) lab.bench

records: setup ## List the figures of documents that are older than the code; MEASURE=1 measures them again
	@$(RUN) lab.records $(if $(MEASURE),--measure)
