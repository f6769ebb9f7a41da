# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh and engine.sh set root, cache, engine and python
# The images of agent and pipeline; to be sourced after lib.sh and engine.sh.
#
# setup_agent_image sets SANDBOX_AGENT_IMAGE, unless it is set already: what the Dockerfile makes on its own base where that is
# at hand or can be pulled; else on a base made here from the system's own packages, with the locked wheels that this
# machine fetches, so that nothing in the build needs a network.

agent_image=samerack/agent:test
agent_sources=(Dockerfile .dockerignore pyproject.toml hatch_build.py README.md LICENSE scripts/locks/agent.lock scripts/locks/build.lock
  scripts/image_system.py src protocol assignors agent)

_default_base() { sed -n 's/^ARG BASE=//p' "$root/Dockerfile"; }

_content_of_agent() {
  (cd "$root" && find "${agent_sources[@]}" -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum &&
    cat scripts/image.sh /etc/os-release) | sha256sum | cut -d' ' -f1
}

# _python_base TARGET IMAGE [,PACKAGE]: Python on this system's release, with pip and venv, as the official image has them too.
_python_base() {
  _bootstrap "$1" "--include=python3,python3-pip,python3-venv,ca-certificates${3:-}" &&
    docker import --change 'ENV PATH=/usr/local/bin:/usr/bin:/bin' --change 'CMD ["python3"]' "$1" "$2"
}

# _fetch_wheels FOLDER VERSION LOCK...: the locked wheels for that Python on this kind of machine; of PySpark the source.
_fetch_wheels() {
  local folder=$1 version=$2 lock platforms=() platform
  shift 2
  for platform in 2014 _2_17 _2_24 _2_26 _2_27 _2_28 _2_31 _2_34 _2_36; do
    platforms+=(--platform "manylinux${platform}_$(uname -m)")
  done
  setup_python
  # A Python of a virtual environment, and that of a small system, has no pip.
  "$python" -m venv --clear "$cache/pip" || return
  # for a source, pip asks what builds it, even to download it
  "$cache/pip/bin/python" -m pip install --quiet --require-hashes --no-deps --requirement "$root/scripts/locks/build.lock" || return
  for lock in "$@"; do
    retry 2 "$cache/pip/bin/python" -m pip download --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
      --no-binary pyspark --no-build-isolation --python-version "$version" --implementation cp "${platforms[@]}" --dest "$folder/wheels" --requirement "$root/scripts/locks/$lock.lock" || return
  done
}

# _with_wheels BASE IMAGE LOCK...: BASE with the locked wheels in it, and with Spark's also its jars; its pip looks nowhere else.
_with_wheels() {
  local base=$1 image=$2 content version work locks
  shift 2
  locks=("${@/#/"$root/scripts/locks/"}") && locks=("${locks[@]/%/.lock}")
  content=$({ printf '%s\n' "$@" && docker image inspect --format '{{.Id}}' "$base" && cat "${locks[@]}" "$root/src/samerack/pipeline/jars/jars.lock"; } | sha256sum)
  content=${content%% *}
  [[ $(_content_of "$image") == "$content" ]] && return
  version=$(docker run --rm --network none "$base" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])') || return
  work=$(mktemp -d)
  # shellcheck disable=SC2016  # Docker expands it
  printf 'ARG BASE\nFROM ${BASE}\nCOPY more /\nENV PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels\n' >"$work/Dockerfile"
  if [[ " $* " == *" spark "* ]]; then
    setup_spark && mkdir -p "$work/more/jars" && cp "$spark_jars"/*.jar "$work/more/jars"
  fi &&
    _fetch_wheels "$work/more" "$version" "$@" &&
    docker build --quiet --build-arg "BASE=$base" --label "samerack.content=$content" --tag "$image" "$work"
  local status=$?
  rm -rf "$work"
  return "$status"
}

# _find_base [NAME ,PACKAGE]: sets base to the Dockerfile's, or to one made here, which has this name and this package too, and
# made_here. A registry is asked until one is made here.
_find_base() {
  local release name=${1:-python-venv}
  release=$(. /etc/os-release && printf '%s-%s' "$ID" "${VERSION_CODENAME:-}")
  base=$(_default_base) made_here=""
  _has_image "$base" && return
  if _has_image "samerack/$name:$release" || ! _pull "$base"; then
    base=samerack/$name:$release made_here=yes
    _has_image "$base" || _python_base "$engine/$name-$release.tar" "$base" "${2:-}"
  fi
}

# build_image FOLDER TAG [OPTION...]: the image of the sources in FOLDER; docker build gets the options.
build_image() {
  local folder=$1 tag=$2 base made_here options=()
  shift 2
  _find_base || return
  if [[ $made_here ]]; then
    _with_wheels "$base" "$base-wheels" install agent build || return
    options=(--network none --build-arg "BASE=$base" --build-arg "BUILD_BASE=$base-wheels")
  fi
  docker build "${options[@]}" "$@" --tag "$tag" "$folder"
}

# build_pipeline_image FOLDER TAG AGENT [OPTION...]: the pipeline's on the agent's image of the same sources. What the build leaves
# beside it is gigabytes, and goes.
build_pipeline_image() {
  local folder=$1 tag=$2 agent=$3 base made_here status=0 options=()
  shift 3
  _find_base python-java ,default-jre-headless || return
  if [[ $made_here ]]; then
    _with_wheels "$base" "$base-wheels" spark build || return
    options=(--network none --build-arg "BASE=$base" --build-arg "BUILD_BASE=$base-wheels")
  fi
  docker build "${options[@]}" "$@" --build-arg "AGENT=$agent" --file "$folder/Dockerfile.pipeline" --tag "$tag" "$folder" || status=$?
  docker image prune --force --filter label=samerack.stage=pipeline
  return "$status"
}

_build_agent() {
  local content=$1
  [[ $(_content_of "$agent_image") == "$content" ]] && return
  build_image "$root" "$agent_image" --build-arg "SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0}" --label "samerack.content=$content"
}

setup_agent_image() {
  local content
  if [[ -z ${SANDBOX_AGENT_IMAGE:-} ]]; then
    content=$(_content_of_agent)
    if [[ $(_content_of "$agent_image") != "$content" ]]; then
      setup_packages image
      step "building the agent's image" locked agent-image _build_agent "$content" || die "the agent's image could not be built (see above)"
    fi
    SANDBOX_AGENT_IMAGE=$agent_image
  fi
  export SANDBOX_AGENT_IMAGE
}

# setup_python_image: SANDBOX_PYTHON_IMAGE, a system with Python, pip and the packages that pip would fetch for samerack.
setup_python_image() {
  local base made_here
  if [[ -z ${SANDBOX_PYTHON_IMAGE:-} ]]; then
    setup_packages image
    _find_base || die "no image with Python could be made (see above)"
    SANDBOX_PYTHON_IMAGE=$base-wheels
    step "adding packages to an image with Python" locked python-image _with_wheels "$base" "$SANDBOX_PYTHON_IMAGE" install agent build ||
      die "the packages could not be added to the image with Python (see above)"
  fi
  export SANDBOX_PYTHON_IMAGE
}
