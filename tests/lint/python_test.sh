#!/usr/bin/env bash
# Types (mypy, strict) and lint (ruff) of the tests and the tools in Python.
#
# usage: python_test.sh PYTHON

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
"$1" -m mypy --cache-dir "$(dirname "$1")/../mypy"
"$1" -m ruff check --no-cache --config pyproject.toml . ../tools
