"""Runs the election of many agents in one process: `python -m benchmarks.election_agents BOOTSTRAP APPS`.

Reads one JSON command a line and answers with one JSON object a line. Each agent that takes part is the program's own
election with its own threads and connections. An agent that waits outside only sends the requests of such an election
(`benchmarks.election_outside`), unless `whole` asks for a real one. The agents do not lead groups or measure traffic.
Requests are counted where they are sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections import Counter
from functools import partial
from typing import Any, Final

import structlog
from kafka.net.manager import KafkaConnectionManager

from benchmarks.election_outside import Connection, WaitingAgent
from samerack.common.settings import Settings, load
from samerack.election.election import Election
from samerack.election.model import Advertisement, lead

_RACKS: Final = ("rack-a", "rack-b", "rack-c")
_sent: Counter[str] = Counter()


def _count_requests() -> None:
    """Count every request that any client of this process sends."""
    send = KafkaConnectionManager.send

    def counting(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        _sent[type(request).__name__.removesuffix("Request")] += 1
        return send(self, request, *arguments, **options)

    KafkaConnectionManager.send = counting


def address(number: int) -> str:
    """Returns the address of an agent's host."""
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class Agents:
    """The agents of this process, by number."""

    def __init__(self, settings: Settings, apps: int) -> None:
        self._settings = settings
        self._apps = apps
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._light: dict[int, WaitingAgent] = {}
        self.agents: dict[int, Election] = {}
        self.changes: list[dict[str, Any]] = []
        self._held: dict[int, frozenset[str]] = {}

    def start(  # noqa: PLR0913 - one parameter for each property of the agents
        self, *, first: int, count: int, step: int, per_second: float, candidates: bool = True, whole: bool = False
    ) -> dict[str, Any]:
        """Start agents at a fixed rate.

        Args:
            first: number of the first agent.
            count: how many.
            step: difference between two numbers.
            per_second: how many a second.
            candidates: whether they have a group to lead.
            whole: whether they run a real election also while they wait outside.
        """
        begun = time.time()
        for index in range(count):
            time.sleep(max(0.0, begun + index / per_second - time.time()))
            number = first + index * step
            responsibilities = (lead(f"app-{number % self._apps:03}"),) if candidates else ()
            advertisement = Advertisement(
                identity=f"app-{number % self._apps:03}-7d9f8b6c5-{number:05}-1a2b3c4d",
                rack=_RACKS[number % len(_RACKS)],
                addresses=(address(number),),
                responsibilities=responsibilities,
            )
            take_part = partial(self._take_part, number, advertisement)
            if whole:
                take_part()
                continue
            host, _, port = self._settings.kafka["bootstrap.servers"].partition(":")
            group = self._settings.election.group
            light = self._light[number] = WaitingAgent(
                Connection(host, int(port), _sent), election=group, advertisement=advertisement, needed=take_part
            )
            asyncio.run_coroutine_threadsafe(light.run(), self._loop)
        return {"begun": begun}

    def _take_part(self, number: int, advertisement: Advertisement) -> None:
        election = self.agents[number] = Election(self._settings, advertisement=advertisement)
        self._light.pop(number, None)
        election.listen(partial(self._note, number))
        election.start()

    def _note(self, number: int) -> None:
        held = frozenset(self.agents[number].held)
        if held != self._held.get(number, frozenset()):
            self._held[number] = held
            self.changes.append({"at": time.time(), "number": number, "held": sorted(held)})

    def stop(self, *, number: int) -> dict[str, Any]:
        """Stop one agent, as on SIGTERM."""
        at = time.time()
        self.agents[number].stop()
        self.agents.pop(number).join(10)
        return {"at": at}

    def status(self) -> dict[str, Any]:
        """Returns how many agents are inside and outside, counters, and what the active ones know."""
        agents, light = dict(self.agents), list(self._light.values())
        return {
            "inside": sum(one.agents > 0 for one in agents.values()),
            "outside": sum(one.is_outside for one in agents.values()) + sum(one.registered for one in light),
            "elections": sum(one.elections for one in agents.values()),
            "term": max((one.term for one in agents.values()), default=0),
            "requests": dict(_sent),
            "processor_seconds": time.process_time(),
            "active": {
                str(number): {
                    "held": sorted(one.held),
                    "agents": one.agents,
                    "waiting": one.waiting_agents,
                    "racks": len(one.racks),
                    "sure": one.sure_claims() is not None,
                }
                for number, one in agents.items()
                if one.held
            },
            "changes": self.changes,
        }

    def knows(self, *, number: int, of: list[int]) -> dict[str, Any]:
        """Returns for how many of the agents `of` an active agent knows the rack."""
        racks = self.agents[number].racks
        return {"known": sum(racks.get(address(one)) == _RACKS[one % len(_RACKS)] for one in of)}


def main() -> None:
    """Execute the commands from standard input."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    _count_requests()
    settings = load(flags={"kafka": {"bootstrap.servers": sys.argv[1]}}, environment={})
    agents = Agents(settings, int(sys.argv[2]))
    for line in sys.stdin:
        command = json.loads(line)
        answer = getattr(agents, command.pop("do"))(**command)
        print(json.dumps(answer), flush=True)  # noqa: T201 - read by the process that started this one


if __name__ == "__main__":
    main()
