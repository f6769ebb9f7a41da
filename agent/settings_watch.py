"""Notices changed settings: on SIGHUP, and when the file has changed. Wrong ones are reported and not used."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

import structlog

from samerack.agent.metrics import Metrics
from samerack.agent.settings_source import SettingsSource
from samerack.common.errors import AgentError, SettingsError
from samerack.common.files import FileVersion, file_version
from samerack.common.service import Service
from samerack.settings.all_settings import Settings

log = structlog.get_logger("settings")

_POLL_SECONDS: Final = 2.0


class SettingsWatch(Service):
    """Asks for another worker when the settings have changed."""

    expected_errors: ClassVar = (AgentError, OSError)

    def __init__(self, source: SettingsSource, *, metrics: Metrics, on_change: Callable[[Settings], None]) -> None:
        """Prepare; `start` reads the source, whose settings in force are this worker's, and begins to poll it.

        `on_change` is called once with settings that are to replace those in force.
        """
        super().__init__("settings")
        self._source = source
        self._metrics = metrics
        self._on_change = on_change
        self._version: FileVersion | None = None  # the settings in force may be those of an older version of the file
        self._asked = False

    def ask(self) -> None:
        """Read the settings soon, whether the file has changed or not; a signal handler may call it."""
        self._asked = True
        self.wake()

    def turn(self) -> float:
        """Poll once; return the pause."""
        version, asked, self._asked = self._file_version(), self._asked, False
        if asked or version not in (None, self._version):
            self._version = version
            self._read(asked=asked)
        return _POLL_SECONDS

    def _file_version(self) -> FileVersion | None:
        return file_version(self._source.path) if self._source.path is not None else None

    def _read(self, *, asked: bool) -> None:
        try:
            found = self._source.reread()
        except SettingsError as error:
            self._metrics.settings_refused.set(1)
            log.error(  # noqa: TRY400 - not the agent's error
                "settings-refused", reason=str(error), consequence="the former settings stay in force"
            )
            return
        self._metrics.settings_refused.set(0)
        if found is None:
            if asked:
                log.info("settings-unchanged")
            return
        changes = self._source.changes()
        log.info("settings-changed", changes={key: {"before": old, "now": new} for key, (old, new) in changes.items()})
        self.stop()
        self._on_change(found)
