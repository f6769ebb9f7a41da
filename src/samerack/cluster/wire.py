"""Sends requests to many brokers at once over kafka-python's client.

There is one connection per broker, opened when first needed, with the agent's own TLS and SASL. Brokers are asked in
parallel, each with one request at a time, so that a slow broker delays only its own requests. A `RawRequest` is one of
which kafka-python does not know the messages: its body is given, and a function reads the response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final, TypeAlias, TypeVar

from kafka import errors as kafka_errors
from kafka.protocol.api_header import RequestHeader, ResponseHeader

from samerack.cluster.client import ClusterClient, SharedClient
from samerack.cluster.errors import NotAcceptedError
from samerack.common.errors import AgentError, RefusedError

Read: TypeAlias = Callable[[bytes], Any]
"""Returns the response that these bytes contain, without their header; it may raise ValueError or struct.error."""


class RawRequest:
    """A request in the form that kafka-python sends."""

    def __init__(self, *, api_key: int, version: int, flexible: bool, body: bytes, read: Read) -> None:
        """Prepare a request from its body without header; `flexible` versions have compact fields and tags."""
        self.API_KEY = api_key
        self.API_VERSION = version
        self.header: _Header | None = None
        self._flexible = flexible
        self._body = body
        self._read = read

    def expect_response(self) -> bool:
        """Return True: every request has a response."""
        return True

    def with_header(self, *, correlation_id: int, client_id: str) -> None:
        """Store the header."""
        request = RequestHeader(
            request_api_key=self.API_KEY,
            request_api_version=self.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        self.header = _Header(correlation_id=correlation_id, request=request, flexible=self._flexible, read=self._read)

    def encode(self, *, framed: bool, header: bool) -> bytes:
        """Encode the frame.

        Raises:
            AgentError: It has no header yet.
        """
        if self.header is None or not framed or not header:
            raise AgentError("kafka: a raw request goes out with its frame and header only")
        content = bytes(self.header.request.encode(flexible=self._flexible)) + self._body
        return len(content).to_bytes(4, "big") + content


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    """A request's header, and the reader of its answer, which kafka-python takes from the header."""

    correlation_id: int
    request: Any
    flexible: bool
    read: Read

    def get_response_class(self) -> _Header:
        return self

    def parse_header(self, buffer: Any) -> Any:
        return ResponseHeader.decode(buffer, flexible=self.flexible)

    def decode(self, buffer: Any) -> Any:
        return self.read(buffer.read())


Item = TypeVar("Item")

ANY_BROKER: Final = -1
ANSWER_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRequest:
    """A request for one broker (or ANY_BROKER), and what the caller needs to interpret the response."""

    broker: int
    request: Any
    about: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerResponse:
    """The response, or the error."""

    question: BrokerRequest
    response: Any = None
    error: Exception | None = None


def chunked(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """Return the items in parts of this size at most, for requests whose responses stay small."""
    return [items[at : at + size] for at in range(0, len(items), size)]


def in_turns(lanes: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """Yield the first item of each lane, then the second of each, and so on."""
    for turn in zip_longest(*lanes, fillvalue=None):
        yield from (item for item in turn if item is not None)


def ask(client: ClusterClient, questions: Sequence[BrokerRequest], timeout: float) -> list[BrokerResponse]:
    """Ask all over an open client; return the answers in the order of the questions, failures among them."""
    lanes: dict[int, list[int]] = {}
    for index, question in enumerate(questions):
        lanes.setdefault(question.broker, []).append(index)
    answers: list[BrokerResponse | None] = [None] * len(questions)
    connections = client.connections

    async def lane(indices: list[int]) -> None:
        for index in indices:
            question = questions[index]
            try:
                broker = connections.least_loaded_node() if question.broker == ANY_BROKER else question.broker
                future = connections.send(question.request, node_id=broker, request_timeout_ms=round(timeout * 1000))
                # the library limits no request that waits for its connection to be made
                response = await connections.wait_for(future, timeout * 1000)
                answers[index] = BrokerResponse(question=question, response=response)
            except Exception as error:  # noqa: BLE001 - one failed question is a value, the others continue
                if isinstance(error, kafka_errors.UnknownBrokerIdError):
                    connections.refresh_brokers()
                answers[index] = BrokerResponse(question=question, error=error)

    async def all_lanes() -> None:
        running = [client.net.call_soon_with_future(lane, indices) for indices in lanes.values()]
        for one in running:
            await one

    client.net.run(all_lanes)
    return [answer for answer in answers if answer is not None]


class BrokerClient:
    """A client for raw requests; one thread may send requests at a time."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Prepare with kafka-python's settings (`auth.kafka_config.for_kafka_python`); the first request connects."""
        self._config = config
        self._client = SharedClient(config)

    def ask(self, questions: Sequence[BrokerRequest], timeout: float = ANSWER_SECONDS) -> list[BrokerResponse]:
        """Ask all; return the answers in the order of the questions, failures among them.

        Raises:
            RefusedError: TLS or SASL fails with every broker that is asked.
            AgentError: No broker can be reached at all.
        """
        if not questions:
            return []
        given = ask(self._client.get(), questions, timeout)
        self._handle_errors([answer.error for answer in given])
        return given

    def _handle_errors(self, errors: Sequence[Exception | None]) -> None:
        """Raise a RefusedError and drop the client if every question was refused."""
        refused = [error for error in errors if isinstance(error, NotAcceptedError)]
        if refused and len(refused) == len(errors):
            self.close()
            raise RefusedError(f"kafka {self._config.get('bootstrap_servers')}: {refused[0]}")

    def ask_in_batches(
        self, questions: Iterable[BrokerRequest], timeout: float = ANSWER_SECONDS
    ) -> Iterator[BrokerResponse]:
        """Yield the answers to many questions, one per broker at a time, so that no more are in memory together.

        A batch ends with the first question to a broker that has one in it, so the questions come `in_turns`; they may
        be made only when they are asked for.

        Raises:
            AgentError: No broker can be reached at all.
        """
        batch: dict[int, BrokerRequest] = {}
        for question in questions:
            if question.broker in batch:
                asked, batch = [*batch.values()], {}
                yield from self.ask(asked, timeout)
            batch[question.broker] = question
        yield from self.ask([*batch.values()], timeout)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
