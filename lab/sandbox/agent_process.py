"""Runs `samerack run` as an operator would: a separate process, observed only through its log and its HTTP port."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

import psutil
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from lab.sandbox.admin import wait_until
from lab.sandbox.commands import SAMERACK
from lab.sandbox.errors import SandboxError
from lab.sandbox.processes import PATIENCE, end, spawn, tail

_STOP_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.1
"""Pause between two requests, because each is work for the agent, too."""


class AgentProcess:
    """A running agent; a context manager that ends it.

    Example:
        with AgentProcess(cluster.bootstrap, groups=["orders"], log=folder / "agent.log") as agent:
            agent.wait_role("leading")
    """

    def __init__(  # noqa: PLR0913 - one parameter for each part of a command line
        self,
        bootstrap: str,
        *,
        groups: Sequence[str],
        log: Path,
        settings: Mapping[str, object] | None = None,
        config: Path | None = None,
        options: Sequence[str] = (),
        prefix: Sequence[str] = (),
    ) -> None:
        """Start the agent, which logs JSON lines into a file.

        Settings are dotted keys to values, as for `--set`; `config` is a file of them, which may name the brokers in
        place of `bootstrap`; `options` are further ones of the command. `prefix` is a program that starts the agent,
        with its arguments.
        """
        self.groups = tuple(groups)
        self.log = log
        self._url = ""
        given = {
            "web.port": 0,
            "log.format": "json",
            # each test has its own election, and two agents on one machine have different identities
            "election.group": f"samerack-{'-'.join(groups)}",
            "election.identity": uuid4().hex,
            "events.path": str(log.with_suffix(".events.db")),
            **(settings or {}),
        }
        line = [*prefix, *SAMERACK, "run", *options]
        line += ["-b", bootstrap] if bootstrap else []
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
        """Return its log events until now, filtered by name, if given, and by fields."""
        found = []
        for line in self.log.read_text(encoding="utf-8").splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue  # half a line, or a traceback
            if name in ("", event.get("event")) and all(event.get(key) == value for key, value in fields.items()):
                found.append(event)
        return found

    @property
    def url(self) -> str:
        """The address of its HTTP port, as it last logged it.

        Raises:
            SandboxError: It has not started yet.
        """
        started = self.events("started")
        if not started:
            raise SandboxError(f"the agent has not started yet:\n{tail(self.log)}")
        return str(started[-1]["url"]).removesuffix("/metrics")

    @property
    def port(self) -> str:
        """The number of its HTTP port, as it last logged it."""
        return self.url.rpartition(":")[2]

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of one page of its HTTP port; status 0 while it does not answer."""
        if not self._url:
            if not self.events("started"):
                return 0, ""
            self._url = self.url
        try:
            with urllib.request.urlopen(f"{self._url}{path}", timeout=5) as page:  # noqa: S310 - the agent's own port
                return int(page.status), page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            self._url = ""  # the supervisor may have replaced the worker: the new one has another port
            return 0, ""

    def json(self, path: str) -> Any:
        """Return one page of its HTTP port, which is JSON."""
        return json.loads(self.get(path)[1])

    def group_status(self) -> dict[str, Any]:
        """Return what it answers of its only group."""
        (group,) = self.json("/v1/status")["groups"]
        return dict(group)

    def worker(self) -> psutil.Process:
        """Return the process that does its work, as it last logged it."""
        return psutil.Process(self.events("started")[-1]["process"])

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of one sample of /metrics; None while it is missing."""
        return next((sample.value for sample in self.samples(name) if sample.labels == labels), None)

    def role(self, group: str = "") -> str:
        """Return its role in a group (its first): leading, following, standby, observing, fenced or outside."""
        return self.roles().get(group or self.groups[0], "unknown")

    def roles(self) -> dict[str, str]:
        """Return its role in each group; empty while it does not answer."""
        return {sample.labels["group"]: sample.labels["role"] for sample in self.samples("samerack_group_role")}

    def samples(self, name: str) -> Iterator[Sample]:
        """Yield the samples of one name on /metrics; none while the agent does not answer.

        Other lines are not parsed, because this runs many times a second.
        """
        lines = [line for line in self.get("/metrics")[1].splitlines() if line.startswith(name)]
        for family in text_string_to_metric_families("\n".join(lines)):
            yield from (sample for sample in family.samples if sample.name == name)

    def first_in_order(self, group: str = "") -> bool:
        """Return whether the agent reports that it is the next to lead."""
        return self.metric("samerack_first_in_order", group=group or self.groups[0]) == 1.0

    def wait(self, holds: Callable[[], bool], what: str, *, timeout: float = 60.0) -> float:
        """Wait until a condition holds; return the seconds it took."""

        def asked() -> bool:
            if holds():
                return True
            if not self.running:
                raise SandboxError(f"the agent ended with exit code {self.process.returncode} before {what}")
            return False

        try:
            return wait_until(asked, what, timeout=timeout, pause=_PAUSE_SECONDS)
        except SandboxError as error:
            raise SandboxError(f"{error}\n{tail(self.log)}") from None

    def wait_role(self, role: str, group: str = "", *, timeout: float = 60.0) -> float:
        """Wait until it has this role in a group."""
        return self.wait(lambda: self.role(group) == role, f"the agent is {role}", timeout=timeout)

    def wait_inside(self, group: str = "", *, timeout: float = 60.0) -> float:
        """Wait until it is in a group: it leads or follows."""
        return self.wait(lambda: self.role(group) in {"leading", "following"}, "it is in the group", timeout=timeout)

    def reaches(self, holds: Callable[[], bool], *, seconds: float) -> bool:
        """Return whether a condition holds within these seconds."""
        try:
            self.wait(holds, "it holds", timeout=seconds / PATIENCE)
        except SandboxError:
            return False
        return True

    def pause(self) -> None:
        """Suspend it at any point (SIGSTOP), its supervisor as well."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it (SIGCONT)."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it with SIGKILL; return when it has ended."""
        end(self.process, kill=True)

    def stop(self) -> tuple[int, float]:
        """End it with SIGTERM; return its exit code and the seconds it took. SIGKILL follows after half a minute."""
        begun = time.monotonic()
        code = end(self.process, timeout=_STOP_SECONDS)
        return code, time.monotonic() - begun

    def __enter__(self) -> Self:
        """Return itself; the process runs already."""
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.resume()
        self.stop()


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
