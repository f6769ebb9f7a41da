"""Settings: which source wins, what is merged, and the message for a wrong key or value."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from samerack.auth.identities import MECHANISM_KEYS
from samerack.auth.kafka_config import for_kafka_python, for_librdkafka
from samerack.common.errors import SettingsError
from samerack.settings.all_settings import Settings
from samerack.settings.flags import settings_from
from samerack.settings.loading import load
from tests.unit.agent.fuzzing import DEEP

BOOTSTRAP = {"SAMERACK_KAFKA__BOOTSTRAP_SERVERS": "127.0.0.1:9092"}


def written(folder: Path, text: str) -> Path:
    """A settings file."""
    path = folder / "samerack.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def from_environment(**variables: str) -> Settings:
    """Settings from the environment alone."""
    return load(environment={**BOOTSTRAP, **variables})


def refusal(
    *, path: Path | None = None, flags: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """The message for settings that are refused."""
    with pytest.raises(SettingsError) as raised:
        load(path=path, flags=flags, environment=BOOTSTRAP if environment is None else environment)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """Flags win over the environment, the environment over the file, the file over the defaults, key by key."""
    path = written(
        tmp_path,
        """
        kafka: {bootstrap.servers: "file:1", client.id: file, security.protocol: SSL}
        groups: [file]
        policy: {burst: 1, refill_seconds: 1, min_saving: 0.1}
        """,
    )
    environment = {
        "SAMERACK_KAFKA__BOOTSTRAP_SERVERS": "environment:1",
        "SAMERACK_KAFKA__CLIENT_ID": "environment",
        "SAMERACK_POLICY__BURST": "2",
        "SAMERACK_POLICY__REFILL_SECONDS": "2",
    }
    found = load(
        path=path, flags={"policy": {"burst": 3}, "kafka": {"bootstrap.servers": "flag:1"}}, environment=environment
    )
    assert found.kafka == {"bootstrap.servers": "flag:1", "client.id": "environment", "security.protocol": "SSL"}
    assert found.groups == ("file",)
    policy = found.policy
    assert (policy.burst, policy.refill_seconds, policy.min_saving) == (3, 2, 0.1)
    assert policy.max_per_hour == Settings(kafka={}).policy.max_per_hour


@pytest.mark.parametrize(("strong", "weak"), [MECHANISM_KEYS, MECHANISM_KEYS[::-1]])
@pytest.mark.parametrize("of_cluster", [False, True])
@pytest.mark.parametrize("by_flag", [False, True])
def test_a_mechanism_of_the_file_by_its_other_name_does_not_win(
    tmp_path: Path, strong: str, weak: str, *, of_cluster: bool, by_flag: bool
) -> None:
    """The setting has two names: both clients get the stronger source's mechanism, and librdkafka one name."""
    said = f"kafka: {{bootstrap.servers: 'a:1', security.protocol: SASL_SSL, {weak}: PLAIN}}"
    path = written(tmp_path, f"cluster: east\nclusters: {{east: {{{said}}}}}" if of_cluster else said)
    variable = f"SAMERACK_KAFKA__{strong.upper().replace('.', '_')}"
    kafka = load(
        path=path,
        flags={"kafka": {strong: "SCRAM-SHA-512"}} if by_flag else {},
        environment={variable: "PLAIN" if by_flag else "SCRAM-SHA-512"},
    ).kafka
    assert for_kafka_python(kafka)["sasl_mechanism"] == "SCRAM-SHA-512"
    assert {key: text for key, text in for_librdkafka(kafka).items() if "mechanism" in key} == {strong: "SCRAM-SHA-512"}


def test_patterns_of_the_stronger_source_are_tried_first(tmp_path: Path) -> None:
    """Maps are merged; a flag's patterns are tried before those of a file, because the first match counts."""
    path = written(tmp_path, "racks: {client_ids: {'*': a, 'x-*': b}}")
    found = load(path=path, flags={"racks": {"client_ids": {"y-*": "c", "*": "d"}}}, environment=BOOTSTRAP)
    assert list(found.racks.client_ids.items()) == [("y-*", "c"), ("*", "d"), ("x-*", "b")]


def test_a_variable_names_the_file(tmp_path: Path) -> None:
    """SAMERACK_CONFIG names the settings file; --config wins over it."""
    named = written(tmp_path, "groups: [named]")
    other = tmp_path / "other.yaml"
    other.write_text("groups: [flag]")
    environment = {**BOOTSTRAP, "SAMERACK_CONFIG": str(named)}
    assert load(environment=environment).groups == ("named",)
    assert load(path=other, environment=environment).groups == ("flag",)


@pytest.mark.parametrize(
    ("variables", "place", "found"),
    [
        ({"KAFKA__SSL_CA_LOCATION": "/ca.pem"}, "kafka.ssl.ca.location", "/ca.pem"),
        ({"KAFKA__LOG_LEVEL": "3"}, "kafka.log_level", "3"),
        ({"KAFKA__SASL_PASSWORD": "on"}, "kafka.sasl.password", "on"),
        ({"GROUPS": "2024"}, "groups", ("2024",)),
        ({"LEADING__INSTANCE_ID": "007"}, "leading.instance_id", "007"),
        ({"WEB__PORT": "0"}, "web.port", 0),
        *(({"GROUPS": text}, "groups", ("orders", "payments")) for text in ("orders, payments,", "[orders, payments]")),
        ({"RACKS": "{networks: {10.0.0.0/8: a}}"}, "racks.networks", {"10.0.0.0/8": "a"}),
        ({"RACKS": "{networks: {}}", "RACKS__REPLICA_SELECTOR": "leader"}, "racks.replica_selector", "leader"),
    ],
)
def test_what_the_environment_says(variables: dict[str, str], place: str, found: object) -> None:
    """Underscores are dots of Kafka's keys; texts stay texts, groups are a list, maps YAML, to which keys may add."""
    settings = from_environment(**{f"SAMERACK_{name}": value for name, value in variables.items()})
    section, _, key = place.partition(".")
    value = getattr(settings, section)
    assert (value[key] if section == "kafka" else getattr(value, key) if key else value) == found


@pytest.mark.parametrize("service", ["SAMERACK", "SAMERACK_EU_1"])
def test_what_kubernetes_sets_for_a_service_is_no_setting(service: str) -> None:
    """The variables that Kubernetes sets for a Service called samerack, or samerack-eu-1, are ignored."""
    links = {
        f"{service}_SERVICE_HOST": "10.96.0.7",
        f"{service}_SERVICE_PORT": "9464",
        f"{service}_SERVICE_PORT_SAMERACK": "9464",
        f"{service}_PORT": "tcp://10.96.0.7:9464",
        f"{service}_PORT_9464_TCP": "tcp://10.96.0.7:9464",
        f"{service}_PORT_9464_TCP_PROTO": "tcp",
        f"{service}_PORT_9464_TCP_PORT": "9464",
        f"{service}_PORT_9464_TCP_ADDR": "10.96.0.7",
    }
    assert from_environment(**links) == from_environment()
    assert from_environment(**links, SAMERACK_WEB__PORT="1").web.port == 1


@pytest.mark.parametrize(
    ("variable", "place"),
    [("SAMERACK_PORT", "port"), ("SAMERACK_WEB_PORT", "web_port"), ("SAMERACK_WEB__SERVICE_HOST", "web.service_host")],
)
def test_what_is_like_a_service_is_still_a_mistake(variable: str, place: str) -> None:
    """A port without a section, or with one underscore too few, is refused and not ignored."""
    message = refusal(environment={**BOOTSTRAP, variable: "9464"})
    assert message.startswith(f"{place} (from the environment): no such setting")


_KAFKAS = pytest.mark.parametrize("place", ["kafka", "clusters.east.kafka", "publishing.kafka"])


def _at(place: str, value: Any) -> dict[str, Any]:
    """Settings with a value below keys."""
    for name in reversed(place.split(".")):
        value = {name: value}
    return cast("dict[str, Any]", value)


@_KAFKAS
def test_kafka_values_become_text(place: str) -> None:
    """YAML's numbers, truth values and lists are written as librdkafka reads them, wherever Kafka's settings are."""
    given = {"bootstrap.servers": ["a:1", "b:2"], "socket.timeout.ms": 1000, "socket.keepalive.enable": True}
    found: Any = load(flags=_at(place, given), environment=BOOTSTRAP, several=True)
    for key in place.split("."):
        found = found[key] if isinstance(found, dict) else getattr(found, key)
    assert found == {
        "bootstrap.servers": "a:1,b:2",
        "socket.timeout.ms": "1000",
        "socket.keepalive.enable": "true",
    }


@pytest.mark.parametrize("password", ["0123456", "1_000", "1.10", "0x1F", "12:30:45", "2026-99-99"])
def test_a_password_like_a_number_stays_as_written(tmp_path: Path, password: str) -> None:
    """YAML reads 0123456 as an octal number, and would give the brokers 42798; the same for texts that are aliases."""
    path = written(tmp_path, f"kafka: {{sasl.password: &it {password}, sasl.username: *it}}")
    kafka = load(path=path, environment=BOOTSTRAP).kafka
    assert (kafka["sasl.password"], kafka["sasl.username"]) == (password, password)


def test_a_password_in_a_merged_map_stays_as_written(tmp_path: Path) -> None:
    """A map that is merged into another may be one that is read later."""
    text = "{clusters: {a: {kafka: &k {bootstrap.servers: 'b:1', sasl.password: 0123}}}, kafka: {<<: *k}}"
    settings = load(path=written(tmp_path, text), environment={}, several=True)
    assert settings.kafka["sasl.password"] == settings.clusters["a"].kafka["sasl.password"] == "0123"


def test_numbers_of_other_settings_are_yamls(tmp_path: Path) -> None:
    """What is a number to the model is the one that YAML reads."""
    assert load(path=written(tmp_path, "policy: {burst: 010}"), environment=BOOTSTRAP).policy.burst == 8


@_KAFKAS
@pytest.mark.parametrize(("value", "why"), [(None, "has no value"), ({"a": "b"}, "has keys of its own")])
def test_a_kafka_key_without_a_text_is_refused(place: str, value: object, why: str) -> None:
    """A key without a value is refused by its own name, not read as None; secrets of other keys are not shown."""
    message = refusal(flags=_at(place, {"sasl.password": "secret", "sasl.username": value}))
    assert message == f"{place}.sasl.username: {why}; expected a string"


def test_sections_that_are_all_comments_are_empty(tmp_path: Path) -> None:
    """A section with no key left gives the defaults, and so does an empty file."""
    assert load(path=written(tmp_path, "policy:\n  # burst: 9\nracks:\n"), environment=BOOTSTRAP) == from_environment()
    assert load(path=written(tmp_path, "# nothing\n"), environment=BOOTSTRAP) == from_environment()


def _policy(**more: Any) -> dict[str, Any]:
    return {"policy": more}


def _endpoint(url: str) -> dict[str, Any]:
    return {"traffic": {"client_endpoints": [{"url": url, "group": "g"}]}}


def _window(cron: str, **more: Any) -> dict[str, Any]:
    return _policy(windows=[{"cron": cron, "minutes": 1, **more}])


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"GROUPS": []}, "GROUPS (from the command line): no such setting; did you mean groups?"),
        ({"KAFKA": {}}, "KAFKA (from the command line): no such setting; did you mean kafka?"),
        ({"web": {"Port": 1}}, "web.Port (from the command line): no such setting; did you mean web.port?"),
        ({"polcy": {}}, "polcy (from the command line): no such setting; did you mean policy?"),
        ({"policy": {"brust": 1}}, "policy.brust (from the command line): no such setting; did you mean policy.burst?"),
        ({"web": {"burst": 1}}, "web.burst (from the command line): no such setting; did you mean policy.burst?"),
        (
            {"xyzzyxyzzy": 1},
            "xyzzyxyzzy (from the command line): no such setting; settings are cluster, clusters, election, events, ",
        ),
    ],
)
def test_an_unknown_key_names_the_nearest(flags: Mapping[str, Any], message: str) -> None:
    """The message for a typing error, a wrong section or nonsense names what to use instead."""
    assert refusal(flags=flags).startswith(message)


@pytest.mark.parametrize(
    ("flags", "meant"),
    [
        ({"group": ["a"]}, "groups"),
        ({"bootstrap": "h:1"}, "kafka.bootstrap.servers"),
        ({"bootstrap_servers": "h:1"}, "kafka.bootstrap.servers"),
        ({"bootsrap.server": "h:1"}, "kafka.bootstrap.servers"),
        ({"security_protocol": "SSL"}, "kafka.security.protocol"),
        ({"publishing": {"client.id": "a"}}, "publishing.kafka.client.id"),
        ({"web_port": 1}, "web.port"),
        (_window("0 2 * * *", crn="0 2 * * *"), "policy.windows.0.cron"),
        ({"traffic": {"client_endpoints": [{"ur": "http://h:1/"}]}}, "traffic.client_endpoints.0.url"),
        ({"clusters": {"east": {"kafak": {}}}}, "clusters.east.kafka"),
        ({"clusters": {"east": {"bootstrap.servers": "h:1"}}}, "clusters.east.kafka.bootstrap.servers"),
        ({"streams": {"applications": {"a-*": {"assigner": "x"}}}}, "streams.applications.a-*.assignor"),
    ],
)
def test_the_nearest_key_is_of_the_same_section(flags: Mapping[str, Any], meant: str) -> None:
    """A misspelt key is compared with those beside it, however deep it is in lists and maps."""
    assert refusal(flags=flags).endswith(f"no such setting; did you mean {meant}?")


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("bootstrap_servers", "bootstrap.servers"),
        ("Bootstrap.Servers", "bootstrap.servers"),
        ("secrity.protocol", "security.protocol"),
        ("ssl.ca.loction", "ssl.ca.location"),
    ],
)
@pytest.mark.parametrize("place", ["kafka", "clusters.east.kafka"])
def test_a_key_that_kafka_does_not_have_names_the_nearest(tmp_path: Path, key: str, meant: str, place: str) -> None:
    """A misspelt key is refused when settings are read, in each map of Kafka's settings, instead of called missing."""
    path = written(tmp_path, yaml.safe_dump(_at(place, {key: "a:1"})))
    message = refusal(path=path)
    assert message.startswith(f"{place}.{key} (from {path}): ")
    assert message.endswith(f"; did you mean {place}.{meant}?")


def test_a_producer_has_keys_of_its_own() -> None:
    """`publishing.kafka` may have them, and `kafka` may not; a file may say all that is wrong at once."""
    own = {"linger.ms": 5, "ssl.ca.pem": "x", "compression.type": "zstd"}
    assert load(flags={"publishing": {"kafka": own}}, environment=BOOTSTRAP).publishing.kafka["linger.ms"] == "5"
    message = refusal(flags={"kafka": {**own, "sasl": {"password": "hidden"}}})
    assert message.startswith("5 settings are wrong: (1) kafka.linger.ms (from the command line): no such setting")
    assert "(5) kafka.sasl: has keys of its own" in message
    assert "hidden" not in message


@pytest.mark.parametrize(
    ("flags", "known"),
    [
        *(({key: {}}, "settings are cluster, clusters, election, ") for key in ("setings", "sttings", "metrics")),
        ({"web": {"timeout": 5}}, "settings of web are host, hosts, port"),
        (_window("0 2 * * *", name="x"), "settings of policy.windows.0 are cron, minutes, timezone"),
    ],
)
def test_what_is_near_to_nothing_lists_its_section(flags: Mapping[str, Any], known: str) -> None:
    """A key that is like no setting gets the names that are there, and no guess."""
    message = refusal(flags=flags)
    assert f"no such setting; {known}" in message


def test_an_unknown_key_names_its_source(tmp_path: Path) -> None:
    """The message names the file or the environment that has the unknown key."""
    path = written(tmp_path, "loging: {level: info}")
    assert refusal(path=path).startswith(f"loging (from {path})")
    assert "did you mean log" in refusal(path=path)
    variables = {**BOOTSTRAP, "SAMERACK_WEB__PROT": "1"}
    assert refusal(environment=variables).startswith(
        "web.prot (from the environment): no such setting; did you mean web.p"
    )


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (_policy(burst=0), ("policy.burst: ", "greater than or equal to 1", "got 0")),
        ({"policy": 5}, ("policy: ", "got 5")),
        (
            _policy(groups={"o-*": {"brust": 1}}),
            ("no such setting", "policy.groups.o-*.burst?"),
        ),
        (_policy(groups={"o-*": {"groups": {}}}), ("no such setting", "policy.groups?")),
        (_policy(groups={"o-*": {"mode": "tell"}}), ("policy.groups.o-*.mode: ", "'act' or 'propose'", "tell")),
        (_policy(windows=[{"cron": "0 2 * * *"}]), ("policy.windows.0.minutes: is missing",)),
        (_window("0 2 * *"), ("policy.windows.0.cron: ", "five fields")),
        (_window("0 25 * * *"), ("policy.windows.0.cron: ", "Bad hour")),
        (_window("0 0 30 2 *"), ("policy.windows.0.cron: ", "Bad day")),
        (_window("0 0 */29 2 1#5"), ("policy.windows.0.cron: ", "fifty")),
        (_window("0 2 * * *", timezone="Mars"), ("policy.windows.0.timezone: unknown time zone", "'Mars'")),
        ({"racks": {"networks": {"10.0.0.1/8": "a"}}}, ("racks.networks: ", "10.0.0.1/8 has host bits set")),
        ({"racks": {"networks": {"everywhere": "a"}}}, ("racks.networks: ", "'everywhere'")),
        ({"racks": {"client_conventions": ["ws_az="]}}, ("racks.client_conventions: ", "'ws_az='", "only the key")),
        ({"racks": {"client_ids": {"x*": ""}}}, ("racks.client_ids: ", "'x*' has an empty rack")),
        ({"leading": {"protocols": ["range", "stream"]}}, ("leading.protocols: ", "'stream' is Kafka Streams")),
        ({"groups": "a,a"}, ("groups: 'a' is listed twice; keep one",)),
        *(
            (
                {"groups": text},
                ("groups: is a list or a map in quotes, which would be read as a single string; remove the quotes",),
            )
            for text in ('["*"]', "[*]", "[orders", '["*"]x')
        ),
        ({"groups": ["a", " "]}, ("groups: contains an empty name; remove it",)),
        ({"groups": ["!search*"]}, ("groups: '!search*' excludes names",)),
        ({"groups": ["orders", "!ord*"]}, ("groups: 'orders' is both included and excluded",)),
        ({"traffic": {"groups": [""]}}, ("traffic.groups: contains an empty name",)),
        ({"traffic": {"poll_seconds": 180}}, ("traffic.poll_seconds", "less than or equal to 60")),
        ({"groups": ["a", "samerack"]}, ("groups: 'samerack' is the agents' own group", "election.group")),
        ({"groups": ["own-waiting-07"], "election": {"group": "own"}}, ("'own-waiting-07' is the agents' own group",)),
        (_endpoint("http://h:70000/"), ("traffic.client_endpoints.0.url: ", "Port out of range 0-65535")),
        (_endpoint("h:9404"), ("traffic.client_endpoints.0.url: ", "expected http://HOST:PORT/PATH")),
    ],
)
def test_a_wrong_value_names_key_and_value(flags: Mapping[str, Any], parts: tuple[str, ...]) -> None:
    """The message says in one line what is wrong, where, and what is expected."""
    message = refusal(flags=flags)
    assert all(part in message for part in parts), message


@pytest.mark.parametrize(
    "address", ["http://u:geheim@h:1/x", "u:geheim@h", "http://u:ge@heim:70000", "http://geheim@[h"]
)
def test_no_password_of_an_address_is_taken_or_shown(address: str) -> None:
    """Addresses are logged and shown; the message hides the whole value, and names what works instead."""
    brokers = {"SAMERACK_KAFKA__BOOTSTRAP_SERVERS": address}
    for message, place, cure in (
        (refusal(flags=_endpoint(address)), "traffic.client_endpoints.0.url", "remove them"),
        (refusal(flags={"otel": {"endpoint": address}}), "otel.endpoint", "OTEL_EXPORTER_OTLP_HEADERS"),
        (refusal(environment=brokers), "kafka.bootstrap.servers", "sasl.username and sasl.password"),
    ):
        assert message.startswith(f"{place}: has a user or password; "), message
        assert cure in message
        assert "heim" not in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"groups": 5}, "groups: must be a list, got 5"),
        ({"groups": [5]}, "groups.0: must be a string, got 5"),
        ({"policy": None}, "policy: must be a map, got nothing"),
        (_policy(windows=5), "policy.windows: must be a list, got 5"),
        (_policy(groups={"x": 5}), "policy.groups.x: must be a map, got 5"),
        *((_policy(burst=value), f"policy.burst: must be a whole number, got {value!r}") for value in ("x", 1.5, [1])),
        (_policy(min_saving="x"), "policy.min_saving: must be a number, got 'x'"),
        (_policy(mode=5), "policy.mode: must be 'act' or 'propose', got 5"),
        (_policy(min_saving=7), "policy.min_saving: must be less than or equal to 1, got 7"),
        ({"traffic": {"replication": "maybe"}}, "traffic.replication: must be true or false, got 'maybe'"),
        ({"pipeline": {"states_topic": ""}}, "pipeline.states_topic: must not be empty, got ''"),
        ({"kafka": 5}, "kafka: must be a map, got a number"),
        ({"pipeline": {"conf": "x"}}, "pipeline.conf: must be a map, got a string"),
    ],
)
def test_a_wrong_type_is_reported_in_words_of_the_file(flags: Mapping[str, Any], message: str) -> None:
    """No tuple, str or NoneType, which are Python's, and no name of a class of ours."""
    assert refusal(flags=flags).startswith(message)


@pytest.mark.parametrize(
    ("servers", "wrong"),
    [
        ("not a server", "'not a server' is not a server"),
        *((servers, "has a comma without a server") for servers in ("a:1,,b:1", "a:1,", ",a:1")),
        (":9092", "':9092' is not a server"),
        ("a:b", "'a:b' is not a server"),
        ("::1", "'::1' is not a server"),
        ("[a:1", "'[a:1' is not a server"),
        *((server, f"'{server}' is not a server") for server in ("http://a:1/path", "http://a:1", "tcp://a:1")),
        ("a:1;b:1", "'a:1;b:1' is not a server"),
        ("a:0", "'a:0': the port must be from 1 to 65535"),
        ("a:1,b:65536", "'b:65536': the port must be from 1 to 65535"),
    ],
)
def test_what_is_no_server_is_refused(servers: str, wrong: str) -> None:
    """Servers to which both clients would try to connect for ever are refused; the message gives the right form."""
    kafka = {"kafka": {"bootstrap.servers": servers}}
    assert refusal(flags=kafka).startswith(f"kafka.bootstrap.servers: {wrong}; expected HOST:PORT")
    assert refusal(flags={"publishing": kafka}).startswith(f"publishing.kafka.bootstrap.servers: {wrong}")


@pytest.mark.parametrize(
    "servers",
    [
        "a",
        " a:1 , b-2.example.org.:2",
        "10.0.0.1:1",
        "[::1]:9092",
        "[fe80::1%eth0]:9092",
        "SASL_SSL://a_b:65535",
        "plaintext://a:1",
    ],
)
def test_servers_as_both_clients_read_them(servers: str) -> None:
    """Names and addresses are accepted, with and without a port."""
    found = load(flags={"kafka": {"bootstrap.servers": servers}}, environment={})
    assert found.kafka["bootstrap.servers"] == servers


@pytest.mark.parametrize(
    "flags",
    [
        {"kafka": "{sasl.password: hidden"},
        {"kafka": {"sasl.password": "hid\ud800den", "sasl.username": "hidden"}},
        {"kafka": {"sasl.password": [["hidden"]]}},
        {"publishing": "{kafka: {sasl.password: hidden"},
        {"publishing": {"kafka": "{sasl.password: hidden"}},
        {"publishing": {"traffic_topic": "t", "states_topic": "t", "kafka": {"sasl.password": "hidden"}}},
        {"pipeline": {"conf": {"spark.hadoop.fs.s3a.secret.key": [["hidden"]]}}},
    ],
)
def test_no_refusal_shows_a_secret(flags: Mapping[str, Any]) -> None:
    """No message shows a secret, wherever it is set."""
    message = refusal(flags=flags)
    assert message.startswith(("kafka", "publishing", "pipeline"))
    assert not any(part in message for part in ("hidden", "hid", "den"))


def test_bytes_that_are_no_text_are_refused() -> None:
    """Bytes in the environment that are not UTF-8 are refused; the message names the variable, not its value."""
    variables = {**BOOTSTRAP, "SAMERACK_KAFKA__SASL_PASSWORD": os.fsdecode(b"hidden\xff")}
    message = refusal(environment=variables)
    assert message == "SAMERACK_KAFKA__SASL_PASSWORD: contains bytes that are not UTF-8; expected text"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"kafka": {"sasl\ud800": None}}, "kafka.sasl?: has no value; expected a string"),
        ({"publishing": {"kafka": {"a\ud800": {}}}}, "publishing.kafka.a?: has keys of its own; expected a string"),
        ({"pipeline": {"conf": {"a\ud800": None}}}, "pipeline.conf.a?: has no value; expected a string"),
        ({"\ud800": 1}, "settings: contains characters that UTF-8 cannot encode, got a string"),
        ({"web": {"\ud800": 1}}, "web: contains characters that UTF-8 cannot encode, got "),
        ({"policy": {"mode": "\ud800"}}, "policy.mode: contains characters that UTF-8 cannot encode, got "),
    ],
)
def test_keys_and_values_beyond_utf8_are_refused(flags: Mapping[str, Any], message: str) -> None:
    """YAML can hold a lone surrogate, which the messages of pydantic cannot."""
    assert message in refusal(flags=flags)


def test_a_value_is_repeated_in_part() -> None:
    """A message repeats only a part of a long or deep value: YAML's aliases expand to very large values."""
    bomb: list[Any] = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    for value in (bomb, "x" * 1_000_000):
        assert len(refusal(flags={"policy": {"burst": value}})) < 2_000


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("a: [", "is not YAML"),
        ("- a\n- b", "holds a list"),
        ("plain", "holds a string"),
        ("1.5", "holds a number"),
        (b"\xff\xfe\xfa", "is not YAML"),
        ("groups: " + "[" * DEEP, "is not YAML: it is nested too deeply"),
        ("groups: [a]\nkafka: {}\ngroups: [b]", "groups occurs twice in one section (again on line 3); keep one"),
        ("policy:\n  burst: 1\n  burst: 2", "burst occurs twice"),
        (
            "web:\n  port: 2026-99-99",
            "is not YAML: a value looks like a date or a number but is not valid; put it in quotes",
        ),
        ("web: {port: !!int x}", "is not YAML: a value looks like"),
        ("web: {port: !!bool x}", "is not YAML: a value looks like"),
        (
            "kafka:\n  sasl.password: {hidden\ngroups: [a]",
            "is not YAML: a map is not closed; expected , or } (line 3, column 7, in the block that begins on line 2)",
        ),
        (
            "groups: [a, b\nkafka: {}",
            "is not YAML: a list is not closed; expected , or ] (line 2, column 6, in the block that begins on line 1)",
        ),
        ("groups: [hidden", "is not YAML: a list is not closed; expected , or ] (line 1, column 16)"),
        ("web:\n\tport: 1", "is not YAML: unexpected tab; indent with spaces (line 2, column 1)"),
        ("kafka:\n  sasl.password: @hidden", "is not YAML: a value cannot begin with this character; put it in quotes"),
        ("kafka:\n  sasl.password: 'hidden", "is not YAML: a quoted string is not closed before the end"),
        ("kafka: {sasl.password: hidden}}", "is not YAML: expected a key or an item in the same column"),
        ("kafka: sasl.password: hidden", "is not YAML: unexpected colon; put the key in the same column"),
        ("groups: - a", "is not YAML: unexpected dash; put each item on its own line"),
        ("groups: [a]\nhidden\n", "is not YAML: expected a colon and a space after the key (line 3, column 1"),
        ("{groups: [a]}\nhidden", "is not YAML: expected the end of the file (line 2, column 1)"),
        ("groups: [a]\n---\nhidden: x", "is not YAML: found a second document; expected the end of the file"),
        ("kafka: |hidden", "is not YAML: expected chomping or indentation indicators (line 1, column 9)"),
        *(
            (
                text,
                f"is not YAML: a value that begins with ! or * is a YAML tag or alias; put it in quotes ({at})",
            )
            for text, at in (
                ("kafka:\n  sasl.password: *hidden", "line 2, column 18"),
                ("kafka:\n  sasl.password: !hidden", "line 2, column 18"),
                ("kafka: {sasl.password: !hidden}", "line 1, column 24"),
                ("groups: [orders, !hidden-*]", "line 1, column 18"),
                ("groups: [orders, !hidden-*]\nkafka: {}", "line 1, column 18"),
                ("groups: [!hidden-*, orders]", "line 1, column 10"),
                ("groups:\n- !hidden-*", "line 2, column 3"),
                ("groups: [*]", "line 1, column 10"),
                ("groups: *", "line 1, column 9"),
                ("racks: {client_ids: {*-hidden: a}}", "line 1, column 22"),
            )
        ),
    ],
)
def test_a_file_that_is_no_settings_file(tmp_path: Path, content: str | bytes, part: str) -> None:
    """The message for broken YAML, or for YAML without keys, names the file and what it holds."""
    path = tmp_path / "samerack.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    message = refusal(path=path)
    assert message.startswith(f"{path}: {part}")
    assert "hidden" not in message


def test_a_password_is_no_yaml_and_is_not_shown() -> None:
    """A password that looks like YAML stays a text; a map with a duplicate key is refused without its values."""
    secret = "{a: 1, a: 2}"  # noqa: S105 - of this test
    assert from_environment(SAMERACK_KAFKA__SASL_PASSWORD=secret).kafka["sasl.password"] == secret
    for place in ("PUBLISHING__KAFKA", "CLUSTERS__EAST__KAFKA"):
        found = load(environment={**BOOTSTRAP, f"SAMERACK_{place}__SASL_PASSWORD": "[hidden"}, several=True)
        assert "'sasl.password': '[hidden'" in repr(found)
    doubled = {"SAMERACK_KAFKA": "{bootstrap.servers: h:1, sasl.password: hidden, sasl.password: hidden}"}
    message = refusal(environment=doubled)
    assert "sasl.password occurs twice" in message
    assert "hidden" not in message


def test_an_alias_that_holds_itself_is_refused(tmp_path: Path) -> None:
    """A YAML alias that contains itself is refused, in the file and over a map of the command line."""
    endless: dict[str, Any] = {}
    endless["networks"] = endless
    path = written(tmp_path, "racks: &a {networks: *a}")
    assert refusal(path=path).startswith("racks.networks")
    assert "nested too deeply" in refusal(path=path, flags={"racks": endless})
    assert "lists in a list" in refusal(path=written(tmp_path, "kafka: {bootstrap.servers: &a [*a]}"), environment={})


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """The message for a missing file or a folder names the cause."""
    assert refusal(path=tmp_path / "none.yaml").endswith(
        "cannot be read (No such file or directory); give the path of an existing YAML file"
    )
    assert "Is a directory" in refusal(path=tmp_path)


@pytest.mark.parametrize(
    "flags", [{}, {"kafka": {}}, {"kafka": {"client.id": "x"}}, {"kafka": {"bootstrap.servers": ""}}]
)
def test_bootstrap_servers_are_required(flags: Mapping[str, Any]) -> None:
    """Without bootstrap servers the message names every place where they can be set."""
    message = refusal(flags=flags, environment={})
    assert message.startswith("kafka: ")
    assert "is missing" in message
    assert all(
        place in message for place in ("--bootstrap-servers", "SAMERACK_KAFKA__BOOTSTRAP_SERVERS", "in the file")
    )


def test_a_section_set_whole_and_in_part() -> None:
    """Two variables that contradict each other are refused."""
    message = refusal(environment={**BOOTSTRAP, "SAMERACK_POLICY": "5", "SAMERACK_POLICY__BURST": "1"})
    assert message.startswith("SAMERACK_POLICY__BURST: policy is set as a whole")


def test_set_takes_any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """--set reaches every section, Kafka's dotted keys, whole sections and lists; --bootstrap-servers wins."""
    monkeypatch.delenv("SAMERACK_CONFIG", raising=False)
    found = settings_from(
        None,
        ["127.0.0.1:1"],
        [
            "policy.min_saving=0.02",
            "kafka.security.protocol=SSL",
            "kafka.bootstrap.servers=127.0.0.1:2",
            "kafka.sasl.password=a=[b",
            "groups=[a, b]",
            "racks={networks: {10.0.0.0/8: a}}",
            'racks.client_ids={"*-a": a}',
        ],
        groups=None,
    )
    assert found.policy.min_saving == 0.02
    assert found.kafka == {"security.protocol": "SSL", "bootstrap.servers": "127.0.0.1:1", "sasl.password": "a=[b"}
    assert found.groups == ("a", "b")
    assert found.racks.networks == {"10.0.0.0/8": "a"}
    assert found.racks.client_ids == {"*-a": "a"}


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["policy.burst"], "--set 'policy.burst': expected KEY=VALUE"),
        (["=1"], "--set '=1': expected KEY=VALUE"),
        (["policy=1", "policy.burst=2"], "--set policy: is set both as a whole and by one of its keys"),
        *(
            ([f"{key}={value}"], f"--set {key}: is below SECTION.KEY; give the map: {cure}")
            for key, value, cure in (
                ("policy.groups.orders.mode", "propose", "policy.groups={orders: {mode: propose}}"),
                ("policy.groups.*-eu.x.mode", "propose", "policy.groups={'*-eu.x': {mode: propose}}"),
                ("racks.client_ids.a-*", "rack-a", "racks.client_ids={a-*: rack-a}"),
                ("clusters.east.kafka", "{bootstrap.servers: a:1}", "clusters.east={kafka: VALUE}"),
                ("clusters.east.kafka.sasl.password", "hidden", "clusters.east={kafka: {sasl.password: VALUE}}"),
                ("publishing.kafka.linger.ms", "5", "publishing.kafka={linger.ms: VALUE}"),
                ("pipeline.conf.spark.driver.memory", "4g", "pipeline.conf={spark.driver.memory: VALUE}"),
            )
        ),
        (["kafka=here"], "--set kafka: is set both as a whole and by one of its keys"),
        *(
            ([f"traffic.groups={text}"], "--set traffic.groups: looks like a list or a map but is not valid; close its")
            for text in ("[*]", "[a", '["a", "b"', "{a", "{*}", '["*"]x', "[a, b]x", "{a: b}x")
        ),
        *(
            (
                [f"traffic.groups={text}"],
                "--set traffic.groups: is a list or a map in quotes, which would be read as a single string",
            )
            for text in ("'[*]'", '"[a, b]"', "'[a'", """'["a"]'""")
        ),
    ],
)
def test_set_that_makes_no_sense(assignments: list[str], message: str) -> None:
    """A wrong --set is refused in one line, never with a traceback."""
    with pytest.raises(SettingsError) as raised:
        settings_from(None, ["127.0.0.1:1"], assignments)
    assert str(raised.value).startswith(message)
    assert "hidden" not in str(raised.value)


def test_set_of_a_name_with_dots() -> None:
    """A cluster's name may have dots: what stands behind them is no key below it."""
    found = settings_from(None, None, ["clusters.east.eu={kafka: {bootstrap.servers: a:1}}"], several=True)
    assert set(found.clusters) == {"east.eu"}


@pytest.mark.parametrize(
    ("config", "bootstrap", "message"),
    [
        ([Path("a.yaml"), Path("b.yaml")], None, "--config: was given 2 times; use one file, and override single keys"),
        (
            None,
            ["a:1", "b:1", "a:1"],
            "--bootstrap-servers: was given 3 times; list all brokers in one option, as HOST:PORT,",
        ),
    ],
)
def test_an_option_that_is_given_twice(config: list[Path] | None, bootstrap: list[str] | None, message: str) -> None:
    """A second file, or a second list of brokers, is refused; none of them is left out silently."""
    with pytest.raises(SettingsError) as raised:
        settings_from(config, bootstrap, None)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "names"),
    [("[ab]*", ("[ab]*",)), ("a[b", ("a[b",)), ('"orders"', ("orders",)), ("'pay*', b", ("'pay*'", "b"))],
)
def test_set_of_names(text: str, names: tuple[str, ...]) -> None:
    """A pattern of characters and a bracket within a name stay as they are; quotes around all of it go."""
    assert settings_from(None, ["127.0.0.1:1"], [f"traffic.groups={text}"]).traffic.groups == names


def test_settings_of_values_alone_read_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `load` reads the environment."""
    monkeypatch.setenv("SAMERACK_POLICY__BURST", "9")
    monkeypatch.setenv("POLICY", "{}")
    assert Settings(kafka={}).policy.burst == 3


def test_a_wrong_map_of_kafka_hides_nothing_else() -> None:
    """Its first wrong value is reported beside all that is wrong elsewhere."""
    wrong = {"kafka": {"sasl.username": None}, "clusters": {"e": {"kafka": {"client.id": {}}}}, "web": {"port": "x"}}
    message = refusal(flags=wrong)
    assert message == (
        "3 settings are wrong: (1) kafka.sasl.username: has no value; expected a string (2) "
        "clusters.e.kafka.client.id: has keys of its own; expected a string (3) web.port: must be a whole number, got "
        "'x'"
    )


def test_an_unknown_key_is_named_for_each_place_that_says_it(tmp_path: Path) -> None:
    """A user corrects both in one go; a key that is no text is one as well."""
    path = written(tmp_path, "web: {prot: 1, 5: x}")
    message = refusal(path=path, environment={**BOOTSTRAP, "SAMERACK_WEB__PROT": "1"})
    for origin in ("the environment", str(path)):
        assert f"web.prot (from {origin}): no such setting; did you mean web.port?" in message
    assert f"web.5 (from {path}): no such setting; settings of web are host, hosts, port, socket" in message


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    """A misspelt key, a wrong value and a missing one are corrected in one go; a misspelt key is reported once."""
    message = refusal(flags={"group": ["orders"], "policy": {"brust": 1, "min_saving": 7}, "web": {"port": 70_000}})
    assert message.startswith("4 settings are wrong: (1) group (from the command line): no such setting; did you mean ")
    for part in ("(2) policy.brust (from the command line)", "policy.min_saving: ", "web.port: "):
        assert message.count(part) == 1
