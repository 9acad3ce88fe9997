# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
CARDS := prefix-cache-ttft beam-search-kv preempt-vs-retract

.PHONY: demo test lint format bench faults fuzz clean

.venv/made: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[plots,anki,ray]' --group dev
	touch $@

demo: .venv/made  ## set up the engines, verify three cards on them, grade a sample answer, write a report
	$(BIN)/inferproof builds setup
	$(BIN)/inferproof verify $(CARDS) || [ $$? -eq 3 ]  # 3: some claims need a GPU, and are shown as not run
	$(BIN)/inferproof drill prefix-cache-ttft --lang en --answer tests/samples/prefix-cache-ttft.txt
	$(BIN)/inferproof report study --output report --lang en

test: .venv/made  ## all tests, those on the real CPU engines included
	$(BIN)/inferproof builds setup
	$(BIN)/python -m pytest

lint: .venv/made  ## style, types, import contracts, cards
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	cd src && ../$(BIN)/mypy --config-file ../pyproject.toml -p inferproof
	$(BIN)/mypy tests
	$(BIN)/lint-imports
	$(BIN)/inferproof cards lint

format: .venv/made
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/made  ## the performance that is asked, as ratios measured in one run
	$(BIN)/python tests/bench.py

model: .venv/made  ## the learned part of the grader, from grading/training/; the same data gives the same files
	$(BIN)/python -m inferproof.grading.train

faults: .venv/made  ## 100 killed verifies, several at once, a full disk, a read-only home, 10,000 cards: see docs/reliability.md
	$(BIN)/python tests/faults.py

fuzz: .venv/made  ## coverage-guided fuzzing of the readers, three minutes each: see docs/reliability.md
	$(BIN)/python -m pip install --quiet --group fuzz
	$(BIN)/python tests/fuzz.py

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info
