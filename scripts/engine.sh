# shellcheck shell=bash
# shellcheck disable=SC2154  # lib.sh sets root, cache and what is named after Kafka
# The container engine and the Kafka image for the integration tests; to be sourced after lib.sh.
#
# setup_engine takes the Docker engine that answers (DOCKER_HOST counts); when none does it installs Debian's docker.io and
# starts it. An engine that we started keeps running for the next run; its images lie where Docker keeps them
# (/var/lib/docker), its log and process id in $cache/engine. To end it: kill "$(cat "$cache/engine/dockerd.pid")".
#
# setup_image sets SANDBOX_KAFKA_IMAGE, unless it is set already: apache/kafka where it is at hand or can be pulled, else an
# image of the same contract made here from the system's own packages (debootstrap), a trimmed Java and Kafka's jars. Its
# version is SANDBOX_KAFKA_VERSION. setup_oldest_image does the same for the oldest brokers that leading is tested on, as
# SANDBOX_OLDEST_KAFKA_IMAGE.

engine=$cache/engine
kafka_oldest=3.9.2 # the oldest brokers that leading is tested on
mkdir -p "$engine"

_engine_answers() { command -v docker >/dev/null && timeout 10 docker info >/dev/null 2>&1; }

_engine_started_by_us() {
  local pid
  pid=$(cat "$engine/dockerd.pid" 2>/dev/null) && [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]]
}

# _try_engine OPTIONS...: starts dockerd in the background; succeeds when it answers.
_try_engine() {
  local path=$PATH try
  _engine_started_by_us && as_root kill "$(<"$engine/dockerd.pid")" && sleep 2
  as_root rm -rf "$engine/dockerd.pid" /run/samerack-docker
  if [[ ${1:-} == legacy ]]; then
    # The kernel may know only the older of the two packet filters; Debian's iptables is the newer by default.
    mkdir -p "$engine/legacy"
    for try in iptables ip6tables; do ln -sf "$(command -v "$try-legacy")" "$engine/legacy/$try" || return; done
    path=$engine/legacy:$PATH
    shift
  fi
  # Its own folder for sockets: one that a killed engine left behind would be taken for a living containerd.
  as_root env "PATH=$path" setsid --fork dockerd --host unix:///var/run/docker.sock --group "$(id -gn)" \
    --pidfile "$engine/dockerd.pid" --exec-root /run/samerack-docker "$@" </dev/null >>"$engine/dockerd.log" 2>&1
  for ((try = 0; try < 60; try++)); do
    _engine_answers && return
    sleep 0.5
    ((try < 6)) || _engine_started_by_us || break
  done
  tail -n 5 "$engine/dockerd.log"
  return 1
}

_start_engine() {
  _engine_answers && return
  if [[ -d /run/systemd/system ]] && as_root systemctl start docker && _engine_answers; then
    return
  fi
  : >"$engine/dockerd.log"
  # Without a packet filter containers still reach each other, and their published ports are served by Docker's own proxy.
  _try_engine || _try_engine legacy || _try_engine --iptables=false --ip6tables=false ||
    _try_engine --iptables=false --ip6tables=false --storage-driver=vfs
}

setup_engine() {
  setup_packages engine
  _engine_answers && return
  ((EUID == 0)) || command -v sudo >/dev/null || die "no container engine answers, and starting one needs root. Start one, or name it in DOCKER_HOST"
  step "starting the container engine" locked engine _start_engine || die "the container engine does not start; its log is $engine/dockerd.log"
}

# --- The image --------------------------------------------------------------------------------------------------------

_has_image() { docker image inspect "$1" >/dev/null 2>&1; }

_pull() { timeout 10 docker manifest inspect "$1" >/dev/null && timeout 600 docker pull --quiet "$1"; }

# Prints the address and suite of the archive that this system's own packages come from.
_archive_of_system() {
  local codename
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  # shellcheck disable=SC2016  # apt fills the fields
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Identifier: Packages' |
    awk -v suite="$codename" '$2 == suite && $3 == "main" { print $1, $2; exit }'
}

# _bootstrap TARGET [OPTION...]: a minimal system of this release as an archive, with what debootstrap's options add.
_bootstrap() {
  local target=$1 work mirror suite proxy=
  shift
  [[ -s $target ]] && return
  read -r mirror suite < <(_archive_of_system)
  [[ -n ${suite:-} ]] || { echo "apt's sources name no archive of this release" && return 1; }
  eval "$(apt-config shell proxy Acquire::http::Proxy)"
  work=$(mktemp -d)
  retry 2 as_root env ${proxy:+"http_proxy=$proxy"} debootstrap --variant=minbase "$@" "$suite" "$work/root" "$mirror" &&
    as_root tar -cf "$target.$$" -C "$work/root" --one-file-system --exclude=./var/cache/apt --exclude=./var/lib/apt/lists \
      --exclude=./usr/share/doc --exclude=./usr/share/locale --exclude=./usr/share/man '--exclude=./dev/*' . &&
    as_root chown "$(id -u)" "$target.$$" && mv "$target.$$" "$target"
  local status=$?
  as_root rm -rf --one-file-system "$work"
  return "$status"
}

# _trim_java FOLDER: a Java that has what Kafka needs; the whole development kit where its modules are not at hand.
_trim_java() {
  if "$JAVA_HOME/bin/jlink" --no-header-files --no-man-pages --strip-java-debug-attributes --output "$1" --add-modules \
    java.se,jdk.unsupported,jdk.management.agent,jdk.crypto.ec,jdk.security.auth,jdk.security.jgss,jdk.zipfs,jdk.naming.dns,jdk.net,jdk.jcmd; then
    "$1/bin/java" -Xshare:dump >/dev/null # the archive of Java's own classes, which jlink leaves out
  else
    rm -rf "$1" && cp -rL "$JAVA_HOME" "$1"
  fi
}

# _archive_classes PLAIN IMAGE CONTENT: PLAIN with archives of the classes that a node loads, which halve the work of its start.
_archive_classes() {
  local plain=$1 image=$2 content=$3 name=samerack-archive-$$ try status=0
  # In the shell's environment, not the container's: that would become the image's.
  docker run --detach --name "$name" --network none --tmpfs /tmp "$plain" sh -c 'export ARCHIVE_CLASSES=yes \
    KAFKA_NODE_ID=1 KAFKA_PROCESS_ROLES=broker,controller KAFKA_CONTROLLER_QUORUM_VOTERS=1@localhost:9093 \
    KAFKA_LISTENERS=PLAINTEXT://:9092,CONTROLLER://:9093 KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_CONTROLLER_LISTENER_NAMES=CONTROLLER KAFKA_LISTENER_SECURITY_PROTOCOL_MAP=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT \
    KAFKA_LOG_DIRS=/tmp/data KAFKA_HEAP_OPTS=-Xmx512m KAFKA_JVM_PERFORMANCE_OPTS=-XX:+UseSerialGC
    exec /etc/kafka/docker/run' >/dev/null || return
  for ((try = 0; try < 240; try++)); do
    grep -q "Kafka Server started" <<<"$(docker logs "$name" 2>&1)" && break
    [[ $(docker inspect --format '{{.State.Running}}' "$name") == true ]] || break
    sleep 0.5
  done
  docker stop --time 60 "$name" >/dev/null &&
    docker commit --change "LABEL samerack.content=$content" --change 'CMD ["/etc/kafka/docker/run"]' "$name" "$image" || status=$?
  docker rm --force "$name" >/dev/null
  docker rmi "$plain" >/dev/null # its name only: the layers are the image's
  return "$status"
}

# _build_image IMAGE JARS BASE CONTENT
_build_image() {
  local local_image=$1 jars=$2 base=$3 content=$4 work
  [[ $(_content_of "$local_image") == "$content" ]] && return
  _bootstrap "$base" || return
  work=$(mktemp -d)
  mkdir -p "$work"/{root/opt/java,root/opt/kafka/config,root/etc/kafka/docker,root/mnt/shared/config,root/var/lib/kafka/data} &&
    _trim_java "$work/root/opt/java/openjdk" &&
    mkdir "$work/root/opt/kafka/libs" && cp -p "$jars"/*.jar "$work/root/opt/kafka/libs" &&
    install -m 755 "$root/tests/integration/image/run" "$work/root/etc/kafka/docker/run" &&
    cp "$root/lab/sandbox/kafka/log4j2.yaml" "$work/root/etc/kafka/docker/log4j2.yaml" &&
    cp "$root/lab/sandbox/kafka/log4j2.yaml" "$work/root/etc/kafka/docker/tools-log4j2.yaml" &&
    touch "$work"/root/etc/kafka/docker/{,tools-}log4j.properties && # Kafka 3's wrapper wants them, and nothing reads them
    : >"$work/root/etc/kafka/docker/server.properties" &&
    # Only folders that the base has not: Docker refuses a path that comes twice.
    tar -cf "$work/more.tar" --owner=0 --group=0 -C "$work/root" ./etc/kafka ./opt/java ./opt/kafka ./mnt/shared ./var/lib/kafka &&
    cp "$base" "$work/image.tar" && tar --concatenate --file "$work/image.tar" "$work/more.tar" &&
    docker import --change 'CMD ["/etc/kafka/docker/run"]' \
      --change 'ENV PATH=/opt/java/openjdk/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
      "$work/image.tar" "$local_image-plain" && _archive_classes "$local_image-plain" "$local_image" "$content"
  local status=$?
  rm -rf "$work"
  return "$status"
}

_content_of() { docker image inspect --format '{{index .Config.Labels "samerack.content"}}' "$1" 2>/dev/null; }

# _find_image VERSION: sets found.
_find_image() {
  local version=$1 project content base official=apache/kafka:$1 ours=samerack/kafka:$1
  project=$(kafka_project "$version") || exit
  content=$(cat "$project/jars.lock" "$root/lab/sandbox/kafka/log4j2.yaml" "$root/tests/integration/image/run" "$root/scripts/engine.sh" \
    /etc/os-release <("$JAVA_HOME/bin/java" -version 2>&1) | sha256sum)
  content=${content%% *}
  if [[ $(_content_of "$ours") == "$content" ]]; then
    found=$ours
  elif _has_image "$official" || step "looking for the image $official" _pull "$official" 2>/dev/null; then
    found=$official
  else
    setup_packages image
    setup_brokers "$version"
    base=$engine/base-$(. /etc/os-release && printf '%s-%s' "$ID" "${VERSION_CODENAME:-}").tar
    step "making the image $ours, as no registry has one for us" locked image _build_image "$ours" "$cache/kafka-$version" "$base" "$content" ||
      die "the Kafka image could not be made (see above). Name one in SANDBOX_KAFKA_IMAGE"
    found=$ours
  fi
}

setup_image() {
  local found=${SANDBOX_KAFKA_IMAGE:-}
  [[ -n $found ]] || _find_image "$broker_version"
  export SANDBOX_KAFKA_IMAGE=$found
}

setup_oldest_image() {
  local found=${SANDBOX_OLDEST_KAFKA_IMAGE:-}
  [[ -n $found ]] || _find_image "$kafka_oldest"
  export SANDBOX_OLDEST_KAFKA_IMAGE=$found
}
