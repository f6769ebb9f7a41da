"""Which parts of the agent do not work, and why: for `/healthz`, `/readyz`, `/v1/status` and the gaps of the report.

An unhealthy agent has lost a thread and needs a new process. An agent that is not ready waits for brokers, or for its
place in a group.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from samerack.agent.assembly import AgentParts
from samerack.agent.group_status import FENCED, FOLLOWING, OBSERVING, OUTSIDE, WAITING
from samerack.agent.led_groups import named
from samerack.common.service import Service
from samerack.reporting.wanted import JSON
from samerack.traffic.snapshot import Gap

_STALE_SECONDS: Final = 30.0
_UNMATCHED: Final = "the pattern matches no group yet: check it; the agent leads groups that match later"


class Health:
    """The health of one agent; any thread may ask for it."""

    def __init__(self, parts: AgentParts, services: Sequence[Service]) -> None:
        self._parts = parts
        self._services = services
        self._named = frozenset(named(parts.settings))

    def unhealthy(self) -> dict[str, str]:
        """Return the parts whose thread has ended."""
        writer = self._parts.writer
        services = (*self._services, *([] if writer is None else [writer]))
        ended = [service.name for service in services if not service.is_alive()]
        ended += [one.name for one in self._parts.led.values() if not one.is_alive()]
        return dict.fromkeys(ended, "its thread has ended")

    def unready(self) -> dict[str, str]:
        """Return the parts that do not work at the moment, with the reason."""
        parts = self._parts
        wrong = self.unhealthy()
        if stale := self._stale_metadata():
            wrong.setdefault("watch", stale)
        if parts.poller.last_error:
            wrong.setdefault("poller", parts.poller.last_error)
        if parts.leadership.trouble:
            wrong["election"] = parts.leadership.trouble
        if parts.publisher is not None and parts.publisher.refusal:
            wrong.setdefault("publishing", parts.publisher.refusal)
        troubles, left = self._troubles(), {leader.group: leader.operators.left for leader in parts.led.values()}
        full = self._full()
        for status in parts.metrics.board.all():
            trouble = troubles.get(status.group) or status.why
            if status.group not in self._named:
                continue  # a pattern may match what nobody leads, such as a tool's group
            if status.role == OBSERVING and (status.group in full or (trouble and trouble == left.get(status.group))):
                continue  # an operator's wish, or consumers that need all places, are no part that does not work
            if status.role in (OUTSIDE, FENCED, OBSERVING):
                wrong[f"group {status.group}"] = f"{status.role}: {trouble}" if trouble else status.role
        return wrong

    def notes(self) -> dict[str, str]:
        """Return what is to be known and works: a name that may be wrong, no room, an end of a leave, no evictions."""
        full = self._full()
        notes = {
            f"group {status.group}": status.returned or status.why
            for status in self._parts.metrics.board.all()
            if status.returned
            or (status.group in self._named and status.why and status.role in (WAITING, FOLLOWING))
            or (status.group in self._named and status.role == OBSERVING and status.group in full)
        }
        return notes | {f"groups {pattern}": _UNMATCHED for pattern in self._parts.led.unmatched}

    def status(self) -> dict[str, Any]:
        """Return what the brokers support; of each group the agent's role, what prevents a better one, and a pause.

        Where they are known, also how many members it needs in which rack.
        """
        troubles, wanted = self._troubles(), self._parts.wanted.all()
        groups = [
            {
                "group": one.group,
                "role": one.role,
                "state": one.state,
                "trouble": troubles.get(one.group) or one.why,
                "paused": one.paused,
                "members_wanted": JSON.dump_python(wanted.get(one.group), mode="json"),
            }
            for one in self._parts.metrics.board.all()
        ]
        bootstrap = self._parts.settings.kafka.get("bootstrap.servers", "")
        return {"bootstrap": bootstrap, "brokers": self._parts.watch.versions.summary(), "groups": groups}

    def gaps(self) -> tuple[Gap, ...]:
        """Return what the brokers do not allow, apart from traffic measurement."""
        parts = self._parts
        gaps = parts.publisher.gaps() if parts.publisher is not None else ()
        gaps += parts.writer.gaps() if parts.writer is not None else ()
        refused = [leader for leader in parts.led.values() if leader.reporter.refused and leader.reporter.trouble]
        for leader in refused:
            trouble = leader.reporter.trouble
            cause, _, cure = trouble.rpartition("; ")
            consequence = f"the group leads itself; {cure}"
            gaps += (
                Gap(what="leading", where=leader.group, refused=True, reason=cause or trouble, consequence=consequence),
            )
        return gaps

    def _full(self) -> frozenset[str]:
        """Return the groups that the agent stays out of so that consumers have their places."""
        return frozenset(leader.group for leader in self._parts.led.values() if leader.makes_room)

    def _troubles(self) -> dict[str, str]:
        """Return by group what prevents the agent from leading it."""
        return {leader.group: leader.reporter.trouble for leader in self._parts.led.values()}

    def _stale_metadata(self) -> str:
        """Return why the agent has no current metadata of the cluster; empty if it has."""
        watch = self._parts.watch
        if watch.was_refused:
            return watch.last_error
        if time.monotonic() - watch.last_poll_at <= _STALE_SECONDS:
            return ""
        never = watch.last_poll_at == float("-inf")
        since = (
            "metadata has not been read yet" if never else f"no poll of the cluster in the last {_STALE_SECONDS:.0f} s"
        )
        return f"{since}; {watch.last_error}" if watch.last_error else since
