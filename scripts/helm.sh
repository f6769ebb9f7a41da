# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh sets root and cache
# Helm and Kubernetes' own pod security checks for the tests of the chart, and helm-docs for its README; to be sourced after
# lib.sh.
#
# setup_helm builds Helm and helm-docs with Go from their sources, once, into $cache/helm-VERSION and
# $cache/helm-docs-VERSION, and puts them first on PATH; setup_pod_security does the same with tests/helm/admission. A Go
# from 1.21 on fetches the newer Go that they want by itself.

helm_version=v3.22.0
helm_docs_version=v1.14.2

setup_go() {
  local why="Go 1.21 or newer, to build Helm"
  find_go && return
  ! may_install || need_packages "$why" "golang-1.26-go|golang-1.25-go|golang-1.24-go|golang-1.23-go|golang-go"
  find_go || die "$why: missing, and this system's packages have none. Install it from go.dev and put its go on PATH"
}

# _build_with_go FOLDER PACKAGE [SOURCE]: the program is in FOLDER only when it is whole. In SOURCE, go.mod and go.sum say which
# modules it is made of.
_build_with_go() {
  local folder=$1 package=$2 source=${3:-$root} fresh=$1.$$
  [[ -d $folder ]] && return
  (cd "$source" && GOTOOLCHAIN=auto GOFLAGS='' GOWORK=off GOBIN=$fresh retry 2 "$go" install "$package") && mv "$fresh" "$folder"
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

setup_pod_security() {
  local source=$root/tests/helm/admission folder
  folder=$cache/pod-security-$(cat "$source"/{go.mod,go.sum,main.go} | sha256sum | cut -c1-12)
  if [[ ! -d $folder ]]; then
    setup_go
    step "building Kubernetes' pod security checks" locked helm _build_with_go "$folder" . "$source" ||
      die "Kubernetes' pod security checks could not be built (see above)"
  fi
  export PATH=$folder:$PATH
}
