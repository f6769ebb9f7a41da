"""Answers Kafka Streams applications, whose plans are made one at a time in a process of their own.

So the agent's own threads go on during a slow plan, and one that is late is killed. The agent adds what it knows: the
settings of the application that asks, weights of its partitions, racks of clients that sent none.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from samerack.agent.streams.context import MAX_NAME, MAX_TEXT, NoPlanError, PlanContext, PlanRules, Rackless
from samerack.agent.streams.reporter import StreamsBoard, StreamsReporter, read_outcome
from samerack.cluster.racks import Hosts, client_id_of, member_rack, placed
from samerack.cluster.view import BrokerRacks
from samerack.common.patterns import is_pattern
from samerack.common.pickle_process import CallError, PickleProcess
from samerack.settings.leading import RackSettings
from samerack.settings.streams import StreamsSettings
from samerack.traffic.snapshot import GroupTraffic, ObservedMember

_WORKER: Final = "samerack.agent.streams.worker"
START_SECONDS: Final = 60.0
"""Time for the process to start on a machine that is starved of processor time."""
_MIN_SECONDS: Final = 0.2
"""With less time than this a question has no plan: the deadline would kill a process that has just become ready."""
_MOMENT_SECONDS: Final = 0.05

RacksOf = Callable[[str, Sequence[Rackless]], Mapping[str, str]]
"""Returns by process the racks, as far as they are known, of an application's clients that sent none, from memory."""
WeightsOf = Callable[[str], Mapping[str, tuple[int, ...]] | None]
"""Returns by topic the weights of partitions by the bytes that an application reads, from memory."""


class StreamsService:
    """The plans of all applications; any thread may ask."""

    def __init__(
        self,
        settings: StreamsSettings,
        reporter: StreamsReporter,
        *,
        racks_of: RacksOf = lambda _application, _clients: {},
        weights_of: WeightsOf = lambda _application: None,
    ) -> None:
        self._settings = settings
        self._reporter = reporter
        self._racks_of = racks_of
        self._weights_of = weights_of
        self._lock = threading.Lock()
        self._process = PickleProcess(*settings.python_path)
        self._is_stopped = False

    @property
    def board(self) -> StreamsBoard:
        """The last plan of each application."""
        return self._reporter.board

    @property
    def deadline_seconds(self) -> float:
        """The time from a request to its plan."""
        return self._settings.deadline_seconds

    def start(self) -> None:
        """Start the process if the settings name an application, so that its first plan is not late."""
        if names := [name for name in self._settings.applications if not is_pattern(name)]:
            self._start_in_background(names[0])

    def _start_in_background(self, application: str) -> None:
        def prepare() -> None:
            try:
                self.prepare()
            except NoPlanError as error:
                if not self._is_stopped:
                    self._reporter.not_started(application, error)

        threading.Thread(target=prepare, name="streams", daemon=True).start()

    def prepare(self) -> None:
        """Start the process, so that the first plan of an application is not late; return when it is ready.

        Raises:
            NoPlanError: It does not start.
        """
        if self._process.is_ready:
            return
        with self._turn(START_SECONDS):
            if not self._process.is_ready:  # others that waited before may have made it so
                self._call("warm_up", seconds=START_SECONDS)

    def plan(self, body: bytes, application: str, *, since: float) -> bytes:
        """Return the answer to a question of an application, which asked at `since` on the monotonic clock.

        Raises:
            NoPlanError: There is no plan; the application uses its fall-back.
        """
        if not _is_name(application):
            raise NoPlanError(
                HTTPStatus.BAD_REQUEST, f"?application=: expected a name of at most {MAX_NAME} characters"
            )
        context = self._context(application)
        try:
            with self._turn(max(0.0, since + self.deadline_seconds - time.monotonic())):
                left = self._left(time.monotonic() - since)
                status, *parts = self._call("plan", application, body, context, seconds=left)
                if status == HTTPStatus.CONTINUE:
                    context = replace(context, racks=self._racks_of(application, parts[0]))
                    left = self._left(time.monotonic() - since)
                    _, *parts = self._call("plan", application, body, context, seconds=left)
        except NoPlanError as error:
            self._reporter.failed(application, error)
            if error.status == HTTPStatus.GATEWAY_TIMEOUT:
                self._start_in_background(application)  # the next question finds it ready
            raise
        answer, figures = parts
        self._reporter.planned(figures, time.monotonic() - since)
        planned: bytes = answer
        return planned

    def report_no_turn(self, application: str) -> NoPlanError:
        """Report a question that others left no time for, and return why."""
        error = self._no_turn()
        if _is_name(application):
            self._reporter.failed(application, error)
        return error

    def _left(self, waited: float) -> float:
        """Return the seconds that a question has left which waited for the process.

        Raises:
            NoPlanError: They are too few.
        """
        deadline = self.deadline_seconds
        if deadline - waited < min(_MIN_SECONDS, deadline / 2):
            raise NoPlanError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"the planning process was ready only {waited:.1f} s after the request; it will be ready for the next "
                "rebalance",
            )
        return deadline - waited

    def computed(self, body: bytes) -> None:
        """Record what an application made of a plan, and pass it on to a class of the user.

        Raises:
            NoPlanError: The body is not valid, or the class failed.
        """
        outcome = read_outcome(body)
        self._reporter.computed(outcome)
        is_users = ":" in self._settings.of(outcome.application).assignor
        if outcome.plan is not None and is_users and self._process.is_ready:  # a new process knows no plans
            seconds = self.deadline_seconds
            try:
                with self._turn(seconds):
                    self._call("computed", outcome.plan, outcome.error, seconds=seconds)
            except NoPlanError as error:
                self._reporter.not_passed_on(outcome.application, outcome.plan, error)
                raise

    def _context(self, name: str) -> PlanContext:
        """Return the rules of an application, and what the agent knows of its partitions."""
        chosen = self._settings.of(name)
        rules = PlanRules(**chosen.model_dump(), weights=self._settings.weights)
        return PlanContext(
            rules=rules,
            weights=self._weights_of(name) if rules.weights == "bytes" else None,
        )

    # the process

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        """Wait for a turn with the process.

        Raises:
            NoPlanError: No plan was made in time.
        """
        if not self._lock.acquire(timeout=seconds):
            raise self._no_turn()
        try:
            if self._is_stopped:
                raise NoPlanError(HTTPStatus.SERVICE_UNAVAILABLE, "the agent stops")
            yield
        finally:
            self._lock.release()

    def _no_turn(self) -> NoPlanError:
        planning = "other plans are in progress; raise streams.deadline_seconds and the jar's own deadline"
        starting = "the planning process is still starting; it will be ready for the next rebalance"
        return NoPlanError(HTTPStatus.SERVICE_UNAVAILABLE, planning if self._process.is_ready else starting)

    def _call(self, function: str, *arguments: Any, seconds: float) -> tuple[Any, ...]:
        """Call a function of `streams.worker` and return its answer, which is no refusal; the caller has its turn.

        Raises:
            NoPlanError: There is no plan.
        """
        try:
            found: tuple[Any, ...] = self._process.call(_WORKER, function, *arguments, seconds=seconds)
        except TimeoutError:
            late = f"no plan within {round(seconds, 1):g} s; raise streams.deadline_seconds and the jar's own deadline"
            raise NoPlanError(HTTPStatus.GATEWAY_TIMEOUT, late) from None
        except EOFError:
            died = "the planning process died; the agent's log may say why"
            raise NoPlanError(HTTPStatus.INTERNAL_SERVER_ERROR, died) from None
        except CallError as error:
            raise NoPlanError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)[:MAX_TEXT]) from None
        except OSError as error:
            no_room = f"the planning process cannot start: {error}; give the agent more memory or processes"
            raise NoPlanError(HTTPStatus.INTERNAL_SERVER_ERROR, no_room) from error
        if found[0] >= HTTPStatus.BAD_REQUEST:
            raise NoPlanError(found[0], found[1][:MAX_TEXT])
        return found

    def stop(self) -> None:
        """End the process, and start no other; a plan under way ends without an answer."""
        self._is_stopped = True
        while not self._lock.acquire(timeout=_MOMENT_SECONDS):
            self._process.end()
        self._process.end()
        self._lock.release()


def _is_name(application: str) -> bool:
    return 0 < len(application) <= MAX_NAME


def client_racks(
    settings: RackSettings,
    *,
    group: Callable[[str], GroupTraffic | None],
    hosts: Hosts,
    brokers: Callable[[], BrokerRacks],
) -> Callable[[str, Sequence[Rackless]], Mapping[str, str]]:
    """Return a function from an application and clients of it to the racks, by process, that are known.

    They come from the sources that members' racks come from.
    `group` returns an observed group, whose members have the addresses of their hosts; `brokers` the brokers' racks.
    """

    def find(application: str, clients: Sequence[Rackless]) -> Mapping[str, str]:
        found = group(application)
        members = _by_id(found.members if found else ())
        racks = {client.process: rack(client, members) for client in clients}
        return {process: one for process, one in racks.items() if one is not None}

    def rack(client: Rackless, every: Mapping[str, Sequence[ObservedMember]]) -> str | None:
        members = list(chain.from_iterable(every.get(consumer, ()) for consumer in client.consumers))
        racks = {member.rack.rack for member in members if member.rack.rack}
        if not racks:
            consumer = client.consumers[0] if client.consumers else ""
            found = member_rack(
                settings,
                rack_id=None,
                client_id=client_id_of(consumer),
                client_host=members[0].client_host if members else client.host,
                tags=client.tags,
                hosts=hosts,
            )
            return placed(found, brokers()).rack
        return racks.pop() if len(racks) == 1 else None  # consumers of one process in several racks: not known

    return find


def _by_id(members: Iterable[ObservedMember]) -> Mapping[str, Sequence[ObservedMember]]:
    """Return the members by their ids and client ids, either of which a client may call its consumers."""
    found: defaultdict[str, list[ObservedMember]] = defaultdict(list)
    for member in members:
        for name in {member.id, member.client_id}:
            found[name].append(member)
    return found
