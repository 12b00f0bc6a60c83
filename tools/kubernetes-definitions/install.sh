#!/usr/bin/env bash
# The definitions of Kubernetes' objects that tests/chart/kubernetes_test.py compares with, and a
# compiler that reads them: npm packages of the versions in package-lock.json, 58 MB.
#
# usage: install.sh FOLDER     fills FOLDER/node_modules where that is not done yet

set -euo pipefail

if [[ $# != 1 || "$1" == -* ]]; then
  echo 'usage: install.sh FOLDER' >&2
  exit 2
fi
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"

# Of runs at one time, one installs them.
exec 9>"$1/lock"
flock 9
if cmp -s "$here/package-lock.json" "$1/installed"; then exit; fi
if ! command -v npm >/dev/null; then
  echo 'install.sh: there is no npm here; install Node.js with npm' >&2
  exit 1
fi
echo "   installing the definitions of Kubernetes with npm into $1" >&2
cp "$here/package.json" "$here/package-lock.json" "$1/"
# The packages ask for a newer Node than they need.
npm ci --prefix "$1" --ignore-scripts --no-audit --no-fund --loglevel=error </dev/null >&2
cp "$here/package-lock.json" "$1/installed"
