# What the tests in Python run with. Sourced after base.sh.
# shellcheck shell=bash

# Has the packages of tests/requirements.txt, once need_test_python has been called.
# shellcheck disable=SC2034  # Used by what sources this.
readonly TEST_PYTHON=build/python/bin/python
need_test_python() { "$PYTHON" tools/common/test_environment.py build/python || exit; }
