"""A real Prometheus on loopback that scrapes one agent, queried through its HTTP API."""

from __future__ import annotations

import json
import subprocess
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from lab.sandbox.admin import wait_until
from lab.sandbox.processes import end, spawn
from lab.sandbox.settings import HOST, free_ports

_SECONDS = 30


class Prometheus:
    """A server with rules that scrapes every second; a context manager that ends it."""

    def __init__(self, target: str, *, rules: Path, folder: Path) -> None:
        """Start Prometheus with a file of rules; it scrapes `target`, HOST:PORT, as job `samerack`.

        Raises:
            SandboxError: Prometheus is not installed, or does not start.
        """
        config = folder / "prometheus.yml"
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "samerack", "static_configs": [{"targets": [target]}]}],
        }
        config.write_text(json.dumps(settings), encoding="utf-8")  # YAML is a superset of JSON
        (port,) = free_ports(1)
        self._url = f"http://{HOST}:{port}/api/v1"
        self._log = (folder / "prometheus.log").open("wb")
        line = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
        self._process = spawn(
            [*line, f"--web.listen-address={HOST}:{port}"], stdout=self._log, stderr=subprocess.STDOUT
        )
        try:
            wait_until(lambda: self._up() == "1", "Prometheus has scraped the agent")
        except BaseException:
            self.close()
            raise

    def ask(self, expression: str) -> list[dict[str, Any]]:
        """The current samples of an expression.

        Raises:
            ValueError: Prometheus refuses it; with the reason.
            OSError: It does not answer yet.
        """
        try:
            answer = self._get(f"query?{urlencode({'query': expression})}")
        except HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # it is still starting, and answers in plain text
                raise
            with error:
                raise ValueError(f"{expression}: {json.load(error).get('error')}") from None
        return list(answer["result"])

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health and last error."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def close(self) -> None:
        """End Prometheus."""
        end(self._process, kill=True)
        self._log.close()

    def __enter__(self) -> Self:
        """Return the server."""
        return self

    def __exit__(self, *_: object) -> None:
        """End Prometheus."""
        self.close()

    def _up(self) -> str:
        try:
            found = self.ask('up{job="samerack"}')
        except HTTPError as error:
            error.close()
            return ""
        except OSError:
            return ""
        return str(found[0]["value"][1]) if found else ""

    def _get(self, path: str) -> Any:
        with urlopen(f"{self._url}/{path}", timeout=_SECONDS) as answer:  # noqa: S310 - a loopback address of our own
            return json.load(answer)["data"]
