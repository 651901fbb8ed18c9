# Two commands: `make demo` sets everything up and runs the main job; `make test` sets everything up and
# passes the tests. `make check` is what CI runs first.
PYTHON ?= python3
VENV   := .venv
JOBS   ?= 3
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: demo test test-trainers test-cluster check format clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[all]' --group dev
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/verifier demo

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Three files at a time: tests wait for processes, deadlines and disks more than they compute.
test: $(STAMP)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder

# The real packages of the trainers, in environments below .venvs: gigabytes, so not part of `make test`.
# `make test-trainers ONLY="trl-verl"` runs some of them.
test-trainers: $(STAMP)
	$(BIN)/python -m tests.trainers.run $(ONLY)

# The fault matrix of the distributed service: Postgres, Redis and workers that are killed and frozen.
test-cluster: $(STAMP)
	$(BIN)/python -m pytest tests/cluster -o addopts="-q --strict-markers --strict-config -ra"

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .venvs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
