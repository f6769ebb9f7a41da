"""librdkafka's AdminClient, opened for the agent: a request ends as soon as brokers are known to refuse the client.

librdkafka itself reports a refusal (TLS or SASL failed) only to its error callback and continues to retry, so that a
request only times out. `error_class` and `error_text` turn its errors into the agent's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from samerack.cluster.client import close, connect
from samerack.cluster.errors import CoordinatorMovesError, NotAllowedError, RefusedError
from samerack.common.bearer import TokenError
from samerack.common.errors import AgentError, SettingsError
from samerack.common.kafka_config import for_kafka_python, for_librdkafka, get_token, nearest

log = structlog.get_logger("watch")

REQUEST_SECONDS: Final = 5.0
_PROBE_SECONDS: Final = 2.0
_SURE_SECONDS: Final = 30.0
"""Timeout of kafka-python after librdkafka reported a refusal, long enough for a busy machine: it finds the refusal too
and describes it better."""
_SLICE_SECONDS: Final = 0.1
"""How long one wait for a response takes; between two waits connection errors are handled."""
_NOT_ACCEPTED: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001 - librdkafka's names
_TIMEOUTS: Final = frozenset({KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE})  # noqa: SLF001 - librdkafka's names
_COORDINATOR_MOVES: Final = frozenset(
    {KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS}
)
_NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)


class _Refusals:
    """What librdkafka reports apart from responses: only here does it report that TLS or SASL failed."""

    def __init__(self) -> None:
        self.text = ""

    def handle(self, error: KafkaError) -> None:
        """Stores a connection error of librdkafka if it is a refusal."""
        if error.code() in _NOT_ACCEPTED:
            self.text = error.str()


class Admin(AdminClient):
    """librdkafka's client; knows whether it was refused, which its responses do not show."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self.kafka = kafka
        self.refusals = _Refusals()  # a separate object, so that the callback does not keep an unused client alive
        settings = {**for_librdkafka(kafka), "error_cb": self.refusals.handle}
        get_token(settings)
        super().__init__(settings, logger=_DebugLog())

    def answer(self, question: Future[Any]) -> Any:
        """Waits for a response, at most until a refusal is known: librdkafka would continue to retry.

        Raises:
            RefusedError: The brokers refuse the agent, or the agent refuses them.
            KafkaException, TimeoutError: As raised by the request.
        """
        deadline = time.monotonic() + REQUEST_SECONDS
        while True:
            try:
                return question.result(_SLICE_SECONDS)
            except (KafkaException, TimeoutError) as error:
                self.poll(0)
                own = isinstance(error, TimeoutError) or error.args[0].code() < 0  # not a broker's
                over = isinstance(error, KafkaException) or time.monotonic() > deadline
                if own and (self.refusals.text or over):
                    self._explain()
                if over:
                    raise

    def _explain(self) -> None:
        """Connects with kafka-python, which detects more refusals than librdkafka and describes them more precisely.

        Raises:
            RefusedError: One of the two clients is refused.
        """
        try:
            close(connect(for_kafka_python(self.kafka), _SURE_SECONDS if self.refusals.text else _PROBE_SECONDS))
        except RefusedError:
            raise
        except AgentError:
            pass
        if self.refusals.text:
            servers = self.kafka["bootstrap.servers"]
            raise RefusedError(f"kafka {servers}: {self.refusals.text}; check the settings of TLS and SASL")


class _DebugLog:
    """Logs librdkafka's own log lines at debug level."""

    def log(self, level: int, message: str, *args: object) -> None:
        """Logs one line."""
        log.debug("librdkafka", level=level, line=message % args if args else message)


def open_admin(kafka: Mapping[str, str]) -> Admin:
    """Returns an AdminClient that logs at debug level only: errors are raised as exceptions.

    Raises:
        SettingsError: librdkafka refuses a setting.
        RefusedError: It needs a token and cannot get one.
    """
    try:
        return Admin(kafka)
    except TokenError as error:
        raise RefusedError(f"kafka {kafka.get('bootstrap.servers', '')}: {error}") from None
    except KafkaException as error:
        reason = " ".join((error.args[0].str() if error.args else str(error)).split())
        key = reason.rpartition('"')[0].rpartition('"')[2]
        raise SettingsError(f"kafka: {reason}{nearest(key) if key else ''}") from None


def error_class(error: KafkaException | TimeoutError) -> type[AgentError]:
    """Returns the error class by which the caller decides how to react."""
    code = error.args[0].code() if isinstance(error, KafkaException) else None
    if code in _COORDINATOR_MOVES:
        return CoordinatorMovesError
    return NotAllowedError if code in _NOT_ALLOWED else AgentError


def error_text(error: KafkaException | TimeoutError) -> str:
    """Returns the error's text; the text of a timeout is the same whether the agent or librdkafka timed out first."""
    if isinstance(error, KafkaException) and error.args[0].code() not in _TIMEOUTS:
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return f"no answer in {REQUEST_SECONDS:.0f} s; check bootstrap.servers and security.protocol"
