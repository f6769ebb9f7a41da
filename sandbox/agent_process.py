"""`samerack run` as an operator would start it: a process of its own, seen through its log and its HTTP port only."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from sandbox.admin import wait_until
from sandbox.errors import SandboxError
from sandbox.processes import end, spawn, tail

_STOP_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.1
"""Between two questions; each is work for the agent, too."""


class AgentProcess:
    """A running agent; a context manager that ends it.

    Example:
        with AgentProcess(cluster.bootstrap, groups=["orders"], log=folder / "agent.log") as agent:
            agent.wait_role("leading")
    """

    def __init__(  # noqa: PLR0913 - a command line has as many parts
        self,
        bootstrap: str,
        *,
        groups: Sequence[str],
        log: Path,
        settings: Mapping[str, object] | None = None,
        config: Path | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """Starts it.

        Args:
            bootstrap: `bootstrap.servers`.
            groups: what it leads.
            log: file for its log, which is JSON lines.
            settings: dotted keys to values, as for `--set`.
            config: a file of settings.
            prefix: a program that starts it, with the program's arguments.
        """
        self.groups = tuple(groups)
        self.log = log
        self._url = ""
        given = {
            "web.port": 0,
            "log.format": "json",
            # the agents of one test are among themselves, and two on one machine are two
            "election.group": f"samerack-{'-'.join(groups)}",
            "election.identity": uuid4().hex,
            "events.path": str(log.with_suffix(".events.db")),
            **(settings or {}),
        }
        line = [*prefix, sys.executable, "-m", "agent.cli.main", "run", "-b", bootstrap]
        line += ["--config", str(config)] if config is not None else []
        line += [part for group in groups for part in ("-g", group)]
        line += [part for key, value in given.items() for part in ("-s", f"{key}={_text(value)}")]
        with log.open("wb") as file:
            self.process = spawn(line, stdout=subprocess.DEVNULL, stderr=file)

    @property
    def running(self) -> bool:
        """Whether its process is up."""
        return self.process.poll() is None

    def events(self, name: str = "", **fields: object) -> list[dict[str, Any]]:
        """Its log events until now, those of one name only if one is given, and only those with these fields."""
        found = []
        for line in self.log.read_text(encoding="utf-8").splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue  # half a line, or a traceback
            if name in ("", event.get("event")) and all(event.get(key) == value for key, value in fields.items()):
                found.append(event)
        return found

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one page of its HTTP port; status 0 while it does not answer."""
        if not self._url:
            started = self.events("started")
            if not started:
                return 0, ""
            self._url = str(started[-1]["url"]).removesuffix("/metrics")
        try:
            with urllib.request.urlopen(f"{self._url}{path}", timeout=5) as page:  # noqa: S310 - the agent's own port
                return int(page.status), page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            self._url = ""  # a busy machine may have had the working process replaced: the next has a port of its own
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of one sample of /metrics; None when it does not show."""
        return next((sample.value for sample in self.samples(name) if sample.labels == labels), None)

    def role(self, group: str = "") -> str:
        """What it is to a group (its first): leading, following, standby, observing, fenced or outside."""
        return self.roles().get(group or self.groups[0], "unknown")

    def roles(self) -> dict[str, str]:
        """What it is to each group; nothing while it does not answer."""
        return {sample.labels["group"]: sample.labels["role"] for sample in self.samples("samerack_group_role")}

    def samples(self, name: str) -> Iterator[Sample]:
        """The samples of one name on /metrics; none while it does not answer.

        Others are not even parsed: this is asked many times a second.
        """
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(name)]
        for family in text_string_to_metric_families("\n".join(lines)):
            yield from (sample for sample in family.samples if sample.name == name)

    def first_in_order(self, group: str = "") -> bool:
        """Whether it says that it leads next."""
        return self.metric("samerack_first_in_order", group=group or self.groups[0]) == 1.0

    def wait(self, holds: Callable[[], bool], what: str, *, timeout: float = 60.0) -> float:
        """Waits until a condition holds; the answer is the seconds it took.

        Raises:
            SandboxError: It takes too long, or the agent has ended; with the end of its log.
        """

        def asked() -> bool:
            if holds():
                return True
            if not self.running:
                raise SandboxError(f"the agent ended with exit code {self.process.returncode} before {what}")
            return False

        try:
            return wait_until(asked, what, timeout=timeout, pause=_LOOK_SECONDS)
        except SandboxError as error:
            raise SandboxError(f"{error}\n{tail(self.log)}") from None

    def wait_role(self, role: str, group: str = "", *, timeout: float = 60.0) -> float:
        """Waits until it is this to a group."""
        return self.wait(lambda: self.role(group) == role, f"the agent is {role}", timeout=timeout)

    def reaches(self, holds: Callable[[], bool], *, seconds: float) -> bool:
        """Whether a condition holds within so many seconds."""
        try:
            self.wait(holds, "it holds", timeout=seconds)
        except SandboxError:
            return False
        return True

    def pause(self) -> None:
        """Stops it in the middle of what it does (SIGSTOP), its supervisor as well."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on (SIGCONT)."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it with SIGKILL; returns when it is gone."""
        end(self.process, kill=True)

    def stop(self) -> tuple[int, float]:
        """Ends it with SIGTERM; its exit code and the seconds it took. SIGKILL follows after half a minute."""
        begun = time.monotonic()
        code = end(self.process, timeout=_STOP_SECONDS)
        return code, time.monotonic() - begun

    def __enter__(self) -> Self:
        """Returns itself: it runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Ends it."""
        if self.running:
            self.resume()
        self.stop()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
