# The tools of .venv-test, or else those on the PATH.
export PATH := justfile_directory() / ".venv-test/bin:" + env("PATH")

# all checks, then all tests
default: check test

# list the recipes
help:
    @just --list --unsorted

# format the code, and fix what can be fixed
fmt:
    ruff format .
    ruff check --fix .

# formatting, lint, types, import floors
check:
    ruff format --check .
    ruff check .
    mypy
    lint-imports

# run the tests: just test -k cancel
test *args:
    python -m pytest -n 3 {{ args }}

# the long tests: hundreds of kills and signals, full disk, jumping clock, a million tasks (root, two hours): just campaign -k kills
campaign *args:
    python -m pytest tests/*/campaign_*.py {{ args }}

# tests with coverage, child processes included
cov:
    coverage erase
    coverage run -m pytest
    coverage combine --quiet
    coverage report

# rewrite what is generated from the code: the stored help, and the tables of docs/
reference:
    python -m agentcompass.cli.help --write docs/*.md

# measure speed: just bench NAME
bench *args:
    python -m benchmarks {{ args }}

# build the documentation into site/ (pip install ".[docs]" first)
docs:
    mkdocs build --strict

# build the wheel into dist/
wheel:
    python -m pip wheel --quiet --no-deps --wheel-dir dist .
    python -m zipfile --list dist/agentcompass-*.whl
