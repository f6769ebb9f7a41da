# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh sets root, cache, python and uv
# Group members on clients of other languages and on older clients (tests/clients), built into the cache. To be sourced after
# scripts/lib.sh. Go's modules, npm's packages and Maven's jars come by name and are held against the lock files beside
# the programs.

foreign_clients=$cache/clients

_find_node() { command -v npm >/dev/null && node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 18 ? 1 : 0)'; }

# _stamp FILE...: what they hold, in one word.
_stamp() { sha256sum -- "$@" | cut -d' ' -f1 | sha256sum | cut -d' ' -f1; }

_is_built() { [[ $(cat "$foreign_clients/$1.stamp" 2>/dev/null) == "$2" ]]; }

_build_go_members() {
  local stamp=$1 fresh=$foreign_clients/go.$$
  _is_built go "$stamp" && return
  # -mod=readonly: go.sum is what the modules are held against, never written here
  (cd "$root/tests/clients/go" && retry 3 env GOWORK=off go build -mod=readonly -trimpath -o "$fresh/" ./franz-go ./sarama ./kafka-go) &&
    rm -rf "$foreign_clients/go" && mv "$fresh" "$foreign_clients/go" && printf '%s' "$stamp" >"$foreign_clients/go.stamp"
}

# _find_rust: one that reads today's manifests; systems' packages are often older, and then the test of samsa is skipped.
_find_rust() { cargo --version 2>/dev/null | awk -F'[ .]' '{ exit !($2 > 1 || ($2 == 1 && $3 >= 85)) }'; }

_build_rust_member() {
  local stamp=$1 fresh=$foreign_clients/rust.$$
  _is_built rust "$stamp" && return
  (cd "$root/tests/clients/rust" && CARGO_TARGET_DIR=$fresh retry 3 cargo build --release --locked) &&
    rm -rf "$foreign_clients/rust" && mkdir "$foreign_clients/rust" &&
    mv "$fresh/release/samsa-member" "$foreign_clients/rust/samsa" && rm -rf "$fresh" && printf '%s' "$stamp" >"$foreign_clients/rust.stamp"
}

_install_node_members() {
  local stamp=$1 fresh=$foreign_clients/node.$$
  _is_built node "$stamp" && return
  mkdir -p "$fresh" && cp "$root"/tests/clients/node/{.npmrc,package.json,package-lock.json,*.mjs} "$fresh" &&
    (cd "$fresh" && retry 3 npm ci --omit=dev --omit=optional --ignore-scripts) &&
    rm -rf "$foreign_clients/node" && mv "$fresh" "$foreign_clients/node" && printf '%s' "$stamp" >"$foreign_clients/node.stamp"
}

_install_python_client() {
  local name=$1 stamp=$2 venv=$foreign_clients/$1 lock=$root/tests/clients/$1/requirements.txt
  _is_built "$name" "$stamp" && return
  "$python" -m venv --clear --without-pip "$venv" || return
  "$uv" pip sync --python "$venv/bin/python" --require-hashes "$lock" ||
    retry 2 "$uv" pip sync --system-certs --python "$venv/bin/python" --require-hashes "$lock" || return
  printf '%s' "$stamp" >"$foreign_clients/$name.stamp"
}

# _setup_python_client NAME TITLE: a member on an older Python client, in an environment of its own.
_setup_python_client() {
  local stamp
  stamp=$(_stamp "$root/tests/clients/$1/requirements.txt")
  _is_built "$1" "$stamp" && return
  setup_python
  setup_uv
  step "installing $2" locked "clients-$1" _install_python_client "$1" "$stamp" || die "$2 could not be installed (see above)"
}

# setup_foreign_packages: what the members need from the system, in one go.
setup_foreign_packages() {
  local packages=() why=()
  find_go || { why+=("Go 1.21 or newer") && packages+=(golang-go); }
  _find_node || { why+=("Node 18 or newer with npm") && packages+=(nodejs npm); }
  ((${#packages[@]} == 0)) || need_packages "$(printf '%s, ' "${why[@]}" | sed 's/, $//')" "${packages[@]}"
  find_go || die "Go 1.21 or newer is missing, and this system's packages have none. Install it, and put it on the PATH"
  _find_node || die "Node 18 or newer is missing, and this system's packages have none. Install it, and put it on the PATH"
}

# setup_foreign_clients: members on franz-go, sarama, kafka-go, kafkajs, @platformatic/kafka, samsa (with Rust), kafka-python 2, librdkafka 2.13 and Java's clients 3.4 and 2.8, for
# lab/sandbox/members/programs.py. Java's member itself comes from setup_java_consumer.
setup_foreign_clients() {
  local stamp
  mkdir -p "$foreign_clients"
  setup_foreign_packages
  mapfile -t files < <(cd "$root/tests/clients/go" && find "$PWD" -name '*.go' -o -name 'go.*' | LC_ALL=C sort)
  stamp=$(_stamp "${files[@]}")
  _is_built go "$stamp" || step "building the members in Go" locked clients-go _build_go_members "$stamp" || die "the members in Go could not be built (see above)"
  stamp=$(_stamp "$root"/tests/clients/node/{.npmrc,package.json,package-lock.json,*.mjs})
  _is_built node "$stamp" || step "installing kafkajs and @platformatic/kafka" locked clients-node _install_node_members "$stamp" || die "the members on Node could not be installed (see above)"
  if _find_rust; then
    stamp=$(_stamp "$root"/tests/clients/rust/{Cargo.toml,Cargo.lock,src/main.rs})
    _is_built rust "$stamp" || step "building the member on samsa" locked clients-rust _build_rust_member "$stamp" || die "the member on samsa could not be built (see above)"
  fi
  _setup_python_client kafka-python-2 "kafka-python 2"
  _setup_python_client confluent-2.13 "librdkafka 2.13"
  setup_jars "Kafka's Java client 3.4" "$root/tests/clients/java-3.4" "$cache/kafka-clients-3.4"
  setup_jars "Kafka's Java client 2.8" "$root/tests/clients/java-2.8" "$cache/kafka-clients-2.8"
  setup_jars "Kafka Streams 3.9" "$root/tests/clients/java-streams-3.9" "$cache/kafka-streams-3.9"
  setup_java_consumer
}
