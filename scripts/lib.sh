# shellcheck shell=bash
# Everything that scripts/setup, scripts/test and scripts/demo share: words on progress, packages, Python, Java, Kafka's jars.
# To be sourced. Each setup_* function is idempotent, does nothing when its work is done, and may run in several
# processes at once. What they make lies in .venv and in ${XDG_CACHE_HOME:-$HOME/.cache}/samerack.

if [[ -z ${HOME:-} ]]; then
  HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
  export HOME
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/samerack
kafka_version=4.3.0 # of clients and tools always, of brokers unless SANDBOX_KAFKA_VERSION names another
broker_version=${SANDBOX_KAFKA_VERSION:-$kafka_version}
kafka_jars=$cache/kafka-$kafka_version
spark_jars=$cache/spark-4.2.0
uv_version=0.13.8
mkdir -p "$cache"
# Where Python may keep no compiled modules, as in many images, each of its processes compiles all of them anew: half of the
# processor time of every agent's start.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$cache/bytecode

say() { printf '%s\n' "$*" >&2; }

# die MESSAGE: this machine lacks something that we cannot install.
die() {
  say "samerack: $*"
  exit 2
}

# step WHAT COMMAND...: one line of progress for something that takes long; the command's output is shown only if it fails.
step() {
  local what=$1 log start status=0
  shift
  log=$(mktemp "$cache/step.XXXXXX")
  start=$SECONDS
  printf 'samerack: %s ... ' "$what" >&2
  "$@" >"$log" 2>&1 || status=$?
  if ((status == 0)); then
    say "$((SECONDS - start)) s"
  else
    say "failed after $((SECONDS - start)) s; its last lines:"
    tail -n 30 "$log" >&2
  fi
  rm -f "$log"
  return "$status"
}

# retry TIMES COMMAND...: for downloads.
retry() {
  local times=$1 try
  shift
  for ((try = 1; try <= times; try++)); do
    "$@" && return 0
    ((try == times)) || sleep $((2 * try))
  done
  return 1
}

# locked NAME COMMAND...: one process at a time; the function is to look again whether its work is done.
locked() {
  local name=$1
  shift
  (
    flock 9
    "$@" 9>&- # what the command leaves running must not keep the lock
  ) 9>"$cache/$name.lock"
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo -- "$@"; fi
}

may_install() {
  command -v apt-get >/dev/null && { ((EUID == 0)) || command -v sudo >/dev/null; }
}

# _choose PACKAGE...: prints them on one line; of alternatives (a|b) the first that apt knows, else the last.
_choose() {
  local package name chosen=()
  for package in "$@"; do
    for name in ${package//|/ }; do
      apt-cache show "$name" >/dev/null 2>&1 && break
    done
    chosen+=("$name")
  done
  printf '%s' "${chosen[*]}"
}

_apt_install() {
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -y -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3) chosen
  retry 3 as_root "${apt[@]}" update || say "the package lists could not be brought up to date; going on with those at hand"
  read -ra chosen <<<"$(_choose "$@")"
  echo "${chosen[@]}"
  retry 3 as_root "${apt[@]}" install --no-install-recommends "${chosen[@]}"
}

# need_packages WHY PACKAGE...: installs Debian packages (a|b: the first that there is), or says in one line what to install.
need_packages() {
  local why=$1
  shift
  may_install || die "$why: missing, and neither root with apt-get nor sudo is at hand. Install it: apt-get install $(_choose "$@")"
  step "installing $why" locked apt _apt_install "$@" || die "$why: missing, and could not be installed. Install it: apt-get install $(_choose "$@")"
}

# setup_packages PART...: what python, git, java, engine, image, monitoring, browser and shell need from the system, in one go.
setup_packages() {
  local part packages=() why=()
  for part in "$@"; do
    case $part in
    python) _find_python || { why+=("Python 3.11 or newer") && packages+=(python3 python3-venv); } ;;
    git) command -v git >/dev/null || { why+=(git) && packages+=(git); } ;;
    java)
      _find_java || { why+=("Java 17 or newer") && packages+=("openjdk-21-jdk-headless|openjdk-17-jdk-headless|default-jdk-headless"); }
      command -v mvn >/dev/null || { why+=(Maven) && packages+=(maven); }
      ;;
    engine)
      PATH=$PATH:/usr/sbin:/sbin # Debian's place for dockerd and debootstrap; not on everybody's PATH
      _engine_answers || { command -v docker && command -v dockerd; } >/dev/null ||
        { why+=("a container engine") && packages+=(docker.io iptables "docker-cli|docker.io"); }
      ;;
    image) command -v debootstrap >/dev/null || { why+=("debootstrap, for an image of our own") && packages+=(debootstrap); } ;;
    monitoring)
      # Debian's package starts a server of its own where it can; the tests want the two programs only.
      { command -v prometheus && command -v promtool; } >/dev/null || { why+=(Prometheus) && packages+=(prometheus); }
      ;;
    browser)
      { command -v chromedriver && { command -v chromium || command -v chromium-browser || command -v google-chrome; }; } >/dev/null ||
        { why+=("Chromium, to look at the page") && packages+=(chromium "chromium-driver|chromium-chromedriver" fonts-dejavu-core); }
      ;;
    shell) command -v shellcheck >/dev/null || ! may_install || { why+=(shellcheck) && packages+=(shellcheck); } ;;
    esac
  done
  ((${#packages[@]} == 0)) || need_packages "$(printf '%s, ' "${why[@]}" | sed 's/, $//')" "${packages[@]}"
}

# --- Python -----------------------------------------------------------------------------------------------------------

_find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3 /usr/bin/python3 python3.13 python3.12 python3.11; do
    python=$(command -v "$candidate") || continue
    "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && return 0
  done
  return 1
}

setup_python() {
  setup_packages python
  _find_python || die "Python 3.11 or newer with venv is missing, and this system's packages have none. Install it, and name it in PYTHON"
}

_install_uv() {
  [[ -x $cache/uv-$uv_version/bin/uv ]] && return
  "$python" -m venv --clear "$cache/uv-$uv_version" &&
    retry 3 "$cache/uv-$uv_version/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version"
}

setup_uv() {
  uv=$(command -v uv) && return
  uv=$cache/uv-$uv_version/bin/uv
  [[ -x $uv ]] || step "fetching uv" locked uv _install_uv || die "uv could not be fetched. Install it: pip install uv"
}

# _sync_venv STAMP KIND
_sync_venv() {
  local stamp=$1 lock=$root/scripts/locks/$2.lock venv=$root/.venv
  _venv_is "$stamp" && return
  [[ -x $venv/bin/python ]] || "$python" -m venv --clear --without-pip "$venv" || return
  # The second try takes certificates from the system: machines behind a proxy of their own need it.
  "$uv" pip sync --python "$venv/bin/python" --require-hashes "$lock" ||
    retry 2 "$uv" pip sync --system-certs --python "$venv/bin/python" --require-hashes "$lock" || return
  # What builds it is locked too, so nothing is fetched here.
  "$uv" pip install --offline --no-build-isolation --no-deps --python "$venv/bin/python" --editable "$root" || return
  printf '%s' "$stamp" >"$venv/.samerack"
}

_venv_is() { [[ -x $root/.venv/bin/python && -f $root/.venv/.samerack && $(<"$root/.venv/.samerack") == "$1" ]]; }

# setup_venv [pipeline]: .venv as scripts/locks/develop.lock has it, or with Spark as well, and this checkout in it. One that has
# Spark already keeps it.
setup_venv() {
  setup_python
  local stamp
  stamp=$(cat "$root"/scripts/locks/{develop,pipeline}.lock "$root/pyproject.toml" <("$python" --version) <(printf '%s' "$root") | sha256sum)
  stamp=${stamp%% *}
  _venv_is "$stamp with Spark" && return
  local kind=develop what="the locked Python packages"
  if [[ ${1:-} == pipeline || $(cat "$root/.venv/.samerack" 2>/dev/null) == *" with Spark" ]]; then
    kind=pipeline what="the locked Python packages, with Spark (a download of 450 MB)" stamp="$stamp with Spark"
  fi
  _venv_is "$stamp" && return
  setup_uv
  step "installing $what" locked "venv-$(printf '%s' "$root" | cksum | cut -d' ' -f1)" _sync_venv "$stamp" "$kind" ||
    die "the locked Python packages could not be installed (see above)"
}

# --- Java -------------------------------------------------------------------------------------------------------------

_find_java() {
  local home version
  for home in "${JAVA_HOME:-}" "$(dirname "$(dirname "$(readlink -f "$(command -v javac || echo /none/bin/javac)")")")" /usr/lib/jvm/*; do
    [[ -n $home && -x $home/bin/java && -x $home/bin/javac ]] || continue
    version=$("$home/bin/javac" -version 2>&1 | sed -nE 's/^javac ([0-9]+).*/\1/p')
    if ((${version:-0} >= 17)); then
      export JAVA_HOME=$home
      return
    fi
  done
  return 1
}

setup_java() {
  [[ -z ${java_is_set_up:-} ]] || return 0 # each look starts a JVM
  setup_packages java
  _find_java || die "Java 17 or newer (a development kit) is missing, and this system's packages have none. Install it, and name it in JAVA_HOME"
  java_is_set_up=yes
}

# maven PROJECT GOAL...: with its last lines on failure (through step), and without colours or a line per download. A download
# is tried again, a test of the project is not.
maven() {
  local project=$1 line option
  shift
  line=(mvn --batch-mode --no-transfer-progress -Dstyle.color=never -f "$project/pom.xml" "$@")
  "${line[@]}" && return
  for option in "$@"; do
    [[ $option != -Dsamerack.build=* ]] || ! compgen -G "${option#*=}/surefire-reports/*.txt" >/dev/null || return 1
  done
  # Maven remembers a failed download for a day unless it is asked to try again.
  retry 2 "${line[@]}" --update-snapshots
}

# _copy_jars PROJECT TARGET
_copy_jars() {
  local project=$1 target=$2 fresh=$2.$$
  shift 2
  _jars_verified "$project" "$target" && return
  rm -rf "$fresh"
  maven "$project" dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$fresh" "$@" || return
  (cd "$fresh" && sha256sum --quiet --strict --check "$project/jars.lock") || return
  if ! diff <(cd "$fresh" && printf '%s\n' *.jar | sort) <(sed 's/^[^ ]*  //' "$project/jars.lock" | sort); then
    echo "Maven brought jars that ${project#"$root/"}/jars.lock does not list (above, with <)"
    return 1
  fi
  cp "$project/jars.lock" "$fresh/verified" && rm -rf "$target" && mv "$fresh" "$target"
}

_jars_verified() { cmp -s "$1/jars.lock" "$2/verified"; }

# setup_jars WHAT PROJECT TARGET [OPTION...]: the jars that PROJECT/pom.xml names, as PROJECT/jars.lock has them, in TARGET. Maven
# gets the options.
setup_jars() {
  local what=$1
  shift
  setup_java
  _jars_verified "$1" "$2" || step "fetching $what" locked "$(basename "$2")" _copy_jars "$@" ||
    die "$what: the jars could not be fetched (see above)"
}

# setup_spark: what Spark needs beyond its own jars, for Kafka and Delta.
setup_spark() { setup_jars "Spark's jars for Kafka and Delta" "$root/src/samerack/pipeline/jars" "$spark_jars"; }

# _fetch_spark LOCK TARGET
_fetch_spark() {
  local lock=$1 target=$2
  cmp -s "$lock" "$target/verified" && return
  rm -rf "$target"
  retry 2 "$uv" pip install --quiet --python "$root/.venv/bin/python" --no-deps --require-hashes --target "$target" --requirement "$lock" &&
    cp "$lock" "$target/verified"
}

# setup_spark_versions: the older versions of Spark that tests/spark runs, each with its jars.
setup_spark_versions() {
  local project version
  setup_python
  setup_uv
  for project in "$root"/tests/spark/versions/*; do
    version=${project##*/}
    setup_jars "the jars of Spark $version" "$project" "$cache/spark-$version"
    cmp -s "$project/python.lock" "$cache/spark-python-$version/verified" ||
      step "fetching Spark $version (450 MB)" locked "spark-python-$version" _fetch_spark "$project/python.lock" "$cache/spark-python-$version" ||
      die "Spark $version could not be fetched (see above)"
  done
}

# kafka_project VERSION: where the pom.xml and jars.lock of that Kafka are.
kafka_project() {
  local project=$root/lab/sandbox/kafka
  [[ $1 == "$kafka_version" ]] || project+=/$1
  [[ -f $project/pom.xml ]] || die "SANDBOX_KAFKA_VERSION: no Kafka $1 here; there are $kafka_version and $(cd "$root/lab/sandbox/kafka" && ls -d [0-9]*)"
  printf '%s' "$project"
}

# setup_brokers VERSION: the jars of a Kafka.
setup_brokers() {
  local project
  project=$(kafka_project "$1") || exit
  setup_jars "Kafka $1" "$project" "$cache/kafka-$1"
}

# setup_assignor_brokers: the oldest brokers that load assignors, the oldest that give them racks, and the newest, for the integration tests.
setup_assignor_brokers() {
  setup_brokers 4.0.0
  setup_brokers 4.1.0
  setup_brokers 4.4.0
}

# setup_kafka: Kafka's jars, and the archive of their classes that makes brokers start fast.
setup_kafka() {
  setup_brokers "$kafka_version"
  setup_brokers "$broker_version"
  if ! compgen -G "$kafka_jars/classes-*.jsa" >/dev/null; then
    step "archiving Kafka's classes, for brokers that start fast" locked archive "$root/.venv/bin/python" -m lab.sandbox.jvm ||
      say "samerack: going on without the archive"
  fi
}

_build_java() {
  local project=$1 stamp=$2 target=$3 work
  shift 3
  [[ $(cat "$target.stamp" 2>/dev/null) == "$stamp" ]] && return
  work=$(mktemp -d)
  maven "$project" package "-Dsamerack.build=$work" "$@" && mkdir -p "$(dirname "$target")" && mv "$work/$(basename "$target")" "$target" &&
    printf '%s' "$stamp" >"$target.stamp"
  local status=$?
  rm -rf "$work"
  return "$status"
}

# setup_java_project PROJECT JAR [OPTION...]: builds a Maven project of ours into the cache, as $cache/java/JAR; the project's build
# folder is ${samerack.build} and its final name JAR's. Maven gets the options.
setup_java_project() {
  local project=$1 jar=$2 stamp
  shift 2
  setup_java
  stamp=$(cd "$project" && { printf '%s\n' "$@" && find pom.xml src -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum; } | sha256sum)
  [[ $(cat "$cache/java/$jar.stamp" 2>/dev/null) == "$stamp" ]] && return
  step "building $jar" locked "java-$jar" _build_java "$project" "$stamp" "$cache/java/$jar" "$@" || die "$jar could not be built (see above)"
}

# setup_java_consumer: the Java member of consumer groups, for the integration tests.
setup_java_consumer() { setup_java_project "$root/tests/java/consumer" consumer.jar; }

# setup_broker_assignor: the assignor that brokers load, as $cache/java/samerack-broker-assignor.jar.
setup_broker_assignor() { setup_java_project "$root/java/broker" samerack-broker-assignor.jar; }

# setup_streams_assignor: the task assignor of Kafka Streams applications, as $cache/java/samerack-streams-assignor.jar. The
# build runs its own tests on the Kafka that it is compiled against, so a jar with a stamp has passed them.
setup_streams_assignor() { setup_java_project "$root/java/streams" samerack-streams-assignor.jar; }

# test_streams_assignor: the same tests and classes, as compiled, on the oldest Kafka that we test.
test_streams_assignor() {
  setup_java
  local work status=0
  work=$(mktemp -d)
  maven "$root/java/streams" test-compile "-Dsamerack.build=$work" &&
    maven "$root/java/streams" surefire:test "-Dsamerack.build=$work" -Dkafka.version=3.9.2 || status=$?
  rm -rf "$work"
  return "$status"
}

# setup_broker_proof: its proof and benchmark as $cache/java/samerack-broker-proof.jar, and the jars for them.
setup_broker_proof() {
  setup_broker_assignor
  setup_jars "what proves and measures the brokers' assignor" "$root/java/broker/proof" "$cache/broker-proof" \
    "-Dsamerack.assignor=$cache/java/samerack-broker-assignor.jar"
  setup_jars "the assignors' interfaces of Kafka 4.0" "$root/java/broker/oldest" "$cache/broker-oldest"
  setup_java_project "$root/java/broker/proof" samerack-broker-proof.jar \
    "-Dsamerack.assignor=$cache/java/samerack-broker-assignor.jar"
}

# setup_parity: Kafka's own classes for tests/parity, and what proves the brokers' assignor; the tests find them built.
setup_parity() {
  setup_broker_proof
  step "looking for Kafka's own classes, or building what asks them" \
    env -C "$root" .venv/bin/python -c "from tests.parity.peer import built; built()" ||
    die "the peer with Kafka's own classes could not be built (see above)"
}

# find_go: sets go to a Go from 1.21 on, which fetches the newer one that a go.mod asks for, and puts it on PATH.
find_go() {
  local candidate minor
  for candidate in "$(command -v go)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    [[ -x $candidate ]] || continue
    minor=$("$candidate" version | sed -nE 's/.* go1\.([0-9]+).*/\1/p')
    if ((${minor:-0} >= 21)); then
      # shellcheck disable=SC2034  # helm.sh runs it
      go=$candidate
      PATH=$PATH:${candidate%/*}
      return
    fi
  done
  return 1
}
