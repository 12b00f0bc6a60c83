# What the tests of the chart render and compare with. Sourced after packages.sh.
# shellcheck shell=bash

# Makes the definitions of Kubernetes' objects available, where npm is.
need_definitions() {
  tools/kubernetes-definitions/install.sh "$DSLIDE_CACHE_DIR/chart/npm" ||
    note 'the objects are not checked against the definitions of Kubernetes'
}

need_go() { command -v go >/dev/null || want golang-go; }

# Sets DSLIDE_HELM, unless it is set or helm cannot be built.
need_for_chart() {
  need_definitions
  if [[ -n "${DSLIDE_HELM:-}" ]]; then return 0; fi
  need_go
  if DSLIDE_HELM="$(tools/helm/helm.sh "$DSLIDE_CACHE_DIR/helm")"; then
    export DSLIDE_HELM
  elif [[ -z "$(command -v helm || true)" ]]; then
    note 'NO HELM (its messages are above): the tests of the chart are skipped'
  fi
}

# find_helm: as need_for_chart, but builds nothing; false when there is no helm.
find_helm() {
  if [[ -z "${DSLIDE_HELM:-}" ]]; then
    DSLIDE_HELM="$(tools/helm/helm.sh --find "$DSLIDE_CACHE_DIR/helm" || command -v helm || true)"
    export DSLIDE_HELM
  fi
  [[ -n "$DSLIDE_HELM" ]]
}
