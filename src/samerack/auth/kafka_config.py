"""Converts one set of Kafka settings, in librdkafka's names, for both clients.

kafka-python, which asks brokers and leads groups, takes those that this table translates; confluent-kafka, which
publishes, takes all unchanged. A security setting without a counterpart is refused rather than dropped.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from samerack.auth import identities
from samerack.common.errors import SettingsError

if TYPE_CHECKING:
    from samerack.auth.tokens import Tokens

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", identities.OAUTHBEARER, identities.AWS_MSK_IAM)
"""Values of `sasl.mechanism`; the last is a name of the settings only, both clients get OAUTHBEARER for it."""
_KERBEROS: Final = "GSSAPI"
_OFF: Final = frozenset({"false", "f", "0"})
_ON: Final = frozenset({"true", "t", "1"})
"""Values that librdkafka reads as false and as true."""


def _one_of(text: str, values: Collection[str]) -> str:
    if text not in values:
        raise ValueError(f"is not one of {', '.join(values)}")
    return text


def _checks_hostname(text: str) -> bool:
    return _one_of(text.lower(), ("https", "none")) == "https"


def _lookup(text: str) -> str:
    return _one_of(text, ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"))


def _protocol(text: str) -> str:
    return _one_of(text.upper(), ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))


def _is_on(text: str) -> bool:
    return _one_of(text.lower(), (*sorted(_OFF), *sorted(_ON))) in _ON


def _mechanism(text: str) -> str:
    mechanism = text.upper()
    if mechanism == _KERBEROS:
        raise ValueError(
            "is Kerberos, which confluent-kafka's builds of librdkafka lack; use SCRAM-SHA-512, OAUTHBEARER, or TLS "
            "with a client certificate for the agent"
        )
    if mechanism not in MECHANISMS:
        raise ValueError(f"is not supported by the client that leads groups; it supports {', '.join(MECHANISMS)}")
    return identities.OAUTHBEARER if mechanism == identities.AWS_MSK_IAM else mechanism


_TO_KAFKA_PYTHON: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "bootstrap.servers": ("bootstrap_servers", str),
    "client.id": ("client_id", str),
    "client.dns.lookup": ("client_dns_lookup", _lookup),
    "metadata.max.age.ms": ("metadata_max_age_ms", int),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", int),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", int),
    "sasl.mechanism": ("sasl_mechanism", _mechanism),
    "sasl.mechanisms": ("sasl_mechanism", _mechanism),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.username": ("sasl_plain_username", str),
    "security.protocol": ("security_protocol", _protocol),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", int),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", _checks_hostname),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "enable.ssl.certificate.verification": ("ssl_verifies", _is_on),
}
_SECURED_BY: Final = ("sasl.", "ssl.", "enable.sasl.", "enable.ssl.")
_LAYERS: Final = ("SASL", "SSL")
"""Parts of protocols, in small letters the beginnings of the settings that have an effect with them."""
_PROTOCOL: Final = "security.protocol"
_ONLY_LIBRDKAFKA: Final = (
    "allow.auto.create.topics",
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "connections.max.idle.ms",
    "debug",
    "enable.metrics.push",
    "log.connection.close",
    "log_level",
    "max.in.flight.requests.per.connection",
    "message.max.bytes",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "receive.message.max.bytes",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "statistics.interval.ms",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse",
)
FOR_BOTH: Final = frozenset({*_TO_KAFKA_PYTHON, *identities.KEYS})
"""Keys that both clients support; those of tokens become one object, so they are not in the table."""
KNOWN: Final = FOR_BOTH.union(_ONLY_LIBRDKAFKA)
"""All keys that the agent and the chart's values accept. Those of librdkafka alone count where it publishes."""

_MAX_KEY: Final = 200
_CLIENT_ID: Final = "samerack"
_SECRETS: Final = ("password", "secret", ".pem", "jaas", "token")
"""Parts of key names that mark a secret."""
_FILES: Final = (".location", ".file", ".keytab")
"""Ends of key names that mark a file."""
_NO_SECRETS: Final = frozenset({identities.ENDPOINT})


def secrets_of(kafka: Mapping[str, str]) -> frozenset[str]:
    """Return the values that must not be shown: passwords, keys and tokens."""
    return frozenset(
        text for key, text in kafka.items() if text and key not in _NO_SECRETS and any(part in key for part in _SECRETS)
    )


def client_id(kafka: Mapping[str, str]) -> str:
    """Return `client.id` of the agent's clients."""
    return kafka.get("client.id", _CLIENT_ID)


def for_librdkafka(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for confluent-kafka's clients.

    Cloud tokens come from the same provider as for the other client, as `oauth_cb`; tokens for a client secret are
    fetched by librdkafka itself.

    Raises:
        SettingsError: librdkafka does not have the mechanism here, a token setting is wrong, or the connection would be
            less secure than the settings say.
    """
    settings = {"client.id": _CLIENT_ID, "allow.auto.create.topics": "false", **kafka}
    for key in identities.MECHANISM_KEYS:
        if kafka.get(key, "").upper() in {_KERBEROS, identities.AWS_MSK_IAM}:
            settings[key] = _converted(key, kafka[key], _mechanism)
    _check_protocol(kafka)
    if not identities.of_cloud(kafka):
        return settings
    left = {key: text for key, text in settings.items() if key not in identities.KEYS}
    return {**left, "oauth_cb": _provider(kafka).for_librdkafka}


def files_of(kafka: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the files that such settings name: certificates, keys and their stores."""
    return tuple(Path(text) for key, text in kafka.items() if key.endswith(_FILES))


def get_token(settings: Mapping[str, Any]) -> None:
    """Fetch the first token of librdkafka's client before the client is created.

    Without one the client would wait ten seconds and not report the reason. (With a token it still takes a
    second: confluent-kafka checks for it once a second.)

    Raises:
        TokenError: No token can be had.
    """
    if "oauth_cb" in settings:
        settings["oauth_cb"]("")


def for_kafka_python(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings for kafka-python's connections.

    Raises:
        SettingsError: A key is unknown, a value has the wrong type, a security setting has no counterpart there or no
            effect, or a certificate cannot be read.
    """
    result: dict[str, Any] = {"client_id": _CLIENT_ID}
    for key, text in kafka.items():
        if key in _TO_KAFKA_PYTHON:
            name, convert = _TO_KAFKA_PYTHON[key]
            result[name] = _converted(key, text, convert)
        elif wrong := wrong_key(key):
            raise SettingsError(f"kafka.{key}: {wrong}")
    _check_protocol(kafka)
    if result.get("sasl_mechanism") == identities.OAUTHBEARER:
        result["sasl_oauth_token_provider"] = _provider(kafka)
    if result.get("security_protocol") in ("SSL", "SASL_SSL"):
        _load_files(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), result)  # each connection would report errors later
    return result


def over(common: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return common settings with own ones over them, without common ones that an own protocol has no use for."""
    unused = {*(_unused(common, own[_PROTOCOL]) if _PROTOCOL in own else ()), *identities.other_names(own)}
    return {**{key: text for key, text in common.items() if key not in unused}, **own}


def _check_protocol(kafka: Mapping[str, str]) -> None:
    """Refuse settings of SASL or TLS without effect; PLAINTEXT may be set over them, as by a command over a file."""
    protocol = kafka.get(_PROTOCOL, "")
    if protocol.upper() == "PLAINTEXT":
        return
    if unused := _unused(kafka, protocol):
        wanted = "SASL_SSL" if protocol or "sasl." in unused[0] else "SSL"
        raise SettingsError(
            f"kafka.{_PROTOCOL}: {protocol or 'is missing'}, so kafka.{unused[0]} has no effect; set it to {wanted}"
        )
    for one, other in (("certificate", "key"), ("key", "certificate")):
        if kafka.get(f"ssl.{one}.location") and not any(kafka.get(f"ssl.{other}.{at}") for at in ("location", "pem")):
            raise SettingsError(
                f"kafka.ssl.{other}.location: is missing; set it beside kafka.ssl.{one}.location; both may be one file"
            )


def _unused(kafka: Mapping[str, str], protocol: str) -> list[str]:
    """Return the settings of SASL, then those of TLS, that have no effect with a protocol."""
    without = [f"{layer.lower()}." for layer in _LAYERS if layer not in protocol.upper()]
    return [
        key for part in without for key, text in kafka.items() if text and key.removeprefix("enable.").startswith(part)
    ]


def _converted(key: str, text: str, convert: Callable[[str], Any]) -> Any:
    """Convert a value for kafka-python, and refuse one of a wrong type or that is not known."""
    try:
        return convert(text)
    except ValueError as error:
        wrong = "is not a whole number" if convert is int else str(error)
        raise SettingsError(f"kafka.{key}: {text!r} {wrong}") from None


def _provider(kafka: Mapping[str, str]) -> Tokens:
    """Return the token provider of both clients; equal settings give the same object."""
    from samerack.auth.tokens import tokens  # noqa: PLC0415 - imports the whole client, and few use tokens

    who = identities.identity(kafka)
    if who is None:
        raise SettingsError("kafka.sasl.mechanism: does not use tokens; set it to OAUTHBEARER")
    return tokens(who, identities.extensions(kafka))


def tls_context(config: Mapping[str, Any]) -> ssl.SSLContext:
    """Return a new context, with the certificates as their files are now.

    Raises:
        SettingsError: A file cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_files(context, config)
    if not config.get("ssl_verifies", True):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context.check_hostname = config.get("ssl_check_hostname", True)
    if "ssl_cafile" not in config:
        context.load_default_certs()  # takes 50 ms
    if "ssl_crlfile" in config:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def _load_files(context: ssl.SSLContext, config: Mapping[str, Any]) -> None:
    """Load the files that the settings name.

    Raises:
        SettingsError: One cannot be read.
    """
    for name, key in (("ssl_cafile", "ssl.ca.location"), ("ssl_crlfile", "ssl.crl.location")):
        if name in config:
            try:
                context.load_verify_locations(config[name])
            except OSError as error:  # an SSLError is one
                raise SettingsError(
                    f"kafka.{key}: {config[name]}: {error.strerror or error}; it must be a file in PEM"
                ) from None
    if "ssl_certfile" in config:
        try:
            context.load_cert_chain(config["ssl_certfile"], config.get("ssl_keyfile"), config.get("ssl_password", ""))
        except OSError as error:  # an SSLError is one
            raise SettingsError(
                f"kafka.ssl.certificate.location: {config['ssl_certfile']}: {error.strerror or error}; it and "
                "kafka.ssl.key.location must be a certificate in PEM and its key"
            ) from None


def wrong_key(key: str, place: str = "kafka") -> str:
    """Return why the map of Kafka settings at a place may not have a key, with the most similar one; "" if it may."""
    if key in KNOWN:
        return ""
    hint = nearest(key, place) or "; keys are librdkafka's (docs/configuration.md)"
    if key.startswith(_SECURED_BY):
        return f"the client that leads groups has no equivalent{hint}"
    return f"no such setting{hint}"


def nearest(key: str, place: str) -> str:
    """Return a hint at the known setting most similar to `key`, or "" if `key` is known or nothing is similar."""
    if key in KNOWN:
        return ""
    close = get_close_matches(key[:_MAX_KEY].lower(), KNOWN, n=1, cutoff=0.6)
    return f"; did you mean {place}.{close[0]}?" if close else ""
