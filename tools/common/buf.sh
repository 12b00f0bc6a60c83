# Finds buf, which lints and formats the protos. Sourced after base.sh.
# shellcheck shell=bash

readonly BUF_NPM_PACKAGE=@bufbuild/buf@1.75.0

# Sets BUF to a buf program; false when there is none.
find_buf() {
  BUF="${DSLIDE_BUF:-$(command -v buf || true)}"
  if [[ -z "$BUF" && -x "$DSLIDE_CACHE_DIR/buf/node_modules/.bin/buf" ]]; then
    BUF="$DSLIDE_CACHE_DIR/buf/node_modules/.bin/buf"
  fi
  [[ -n "$BUF" ]]
}

# Makes buf available through npm, where npm is.
install_buf() {
  if find_buf || ! command -v npm >/dev/null; then return 0; fi
  note "installing $BUF_NPM_PACKAGE with npm into $DSLIDE_CACHE_DIR/buf"
  mkdir -p "$DSLIDE_CACHE_DIR/buf"
  (cd "$DSLIDE_CACHE_DIR/buf" && npm install --no-save --no-audit --no-fund "$BUF_NPM_PACKAGE") \
    </dev/null >&2 || note "npm could not install $BUF_NPM_PACKAGE"
}
