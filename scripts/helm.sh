# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh sets cache
# Helm for the tests of the chart, and helm-docs for its README; to be sourced after lib.sh.
#
# setup_helm builds both with Go from their sources, once, into $cache/helm-VERSION and $cache/helm-docs-VERSION, and puts
# them first on PATH. A Go from 1.21 on fetches the newer Go that Helm wants by itself.

helm_version=v3.22.0
helm_docs_version=v1.14.2

_find_go() {
  local candidate minor
  for candidate in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    [[ -x $candidate ]] || continue
    minor=$("$candidate" version | sed -nE 's/.* go1\.([0-9]+).*/\1/p')
    if ((${minor:-0} >= 21)); then
      go=$candidate
      return
    fi
  done
  return 1
}

setup_go() {
  local why="Go 1.21 or newer, to build Helm"
  _find_go && return
  ! may_install || need_packages "$why" "golang-1.26-go|golang-1.25-go|golang-1.24-go|golang-1.23-go|golang-go"
  _find_go || die "$why: missing, and this system's packages have none. Install it from go.dev and put its go on PATH"
}

# _build_with_go FOLDER PACKAGE: the program is in FOLDER only when it is whole.
_build_with_go() {
  local folder=$1 package=$2 fresh=$1.$$
  [[ -d $folder ]] && return
  GOTOOLCHAIN=auto GOFLAGS='' GOBIN=$fresh retry 2 "$go" install "$package" && mv "$fresh" "$folder"
}

setup_helm() {
  local helm=$cache/helm-$helm_version docs=$cache/helm-docs-$helm_docs_version
  if [[ ! -d $helm || ! -d $docs ]]; then
    setup_go
    step "building Helm $helm_version" locked helm _build_with_go "$helm" "helm.sh/helm/v3/cmd/helm@$helm_version" ||
      die "Helm could not be built (see above)"
    step "building helm-docs $helm_docs_version" locked helm _build_with_go "$docs" \
      "github.com/norwoodj/helm-docs/cmd/helm-docs@$helm_docs_version" || die "helm-docs could not be built (see above)"
  fi
  export PATH=$helm:$docs:$PATH
}
