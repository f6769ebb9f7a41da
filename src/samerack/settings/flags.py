"""Makes settings of a command line's options, without the command line's library, which the agent does without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from samerack.common.errors import SettingsError

if TYPE_CHECKING:
    from samerack.settings.all_settings import Settings

T = TypeVar("T")
_MAX_CURE = 500


def settings_from(  # noqa: PLR0913 - the options of all commands
    config: Sequence[Path] | None,
    bootstrap: Sequence[str] | None,
    assignments: list[str] | None,
    *,
    needs_kafka: bool = True,
    several: bool = False,
    section: str = "",
    **flags: Any,
) -> Settings:
    """Load settings from the shared options; `flags` are further nested settings.

    `needs_kafka`, `several` and `section` are those of `load`.

    Raises:
        SettingsError: As `settings.loading.load`, an assignment is not KEY=VALUE, or an option is given twice.
    """
    from samerack.settings import cures  # noqa: PLC0415 - a command's help needs no settings
    from samerack.settings.all_settings import as_map  # noqa: PLC0415 - see above
    from samerack.settings.loading import load  # noqa: PLC0415 - see above
    from samerack.settings.sources import parse_text  # noqa: PLC0415 - see above

    merged: dict[str, Any] = {key: value for key, value in flags.items() if value is not None}
    for assignment in assignments or ():
        dotted, equals, value = assignment.partition("=")
        if not equals or not dotted:
            raise SettingsError(f"--set {assignment[:200]!r}: expected KEY=VALUE, e.g. policy.min_saving=0.02")
        name, _, key = dotted.partition(".")
        try:
            parsed = value if name == "kafka" and key else parse_text(value)
        except SettingsError as error:
            raise SettingsError(f"--set {dotted[:200]}: {error}") from None
        if "." in key and (cure := as_map(dotted, parsed)):
            raise SettingsError(f"--set {dotted[:200]}: is below SECTION.KEY; give the map: {cure[:_MAX_CURE]}")
        if not key:
            merged[name] = parsed
        else:
            _section(merged, name)[key] = parsed
    servers = only("--bootstrap-servers", bootstrap, "list all brokers in one option, as HOST:PORT,HOST:PORT")
    if servers is not None:
        _section(merged, "kafka")["bootstrap.servers"] = servers
    path = only("--config", config, "use one file, and override single keys with --set KEY=VALUE")
    loaded = load(path=path, flags=merged, needs_kafka=needs_kafka, several=several, section=section)
    cures.reach_settings(loaded, path)
    return loaded


def only(option: str, given: Sequence[T] | None, cure: str) -> T | None:
    """Return the value of an option that may be given once; None without one.

    Raises:
        SettingsError: It is given twice; the message has the cure.
    """
    if given and len(given) > 1:
        raise SettingsError(f"{option}: was given {len(given)} times; {cure}")
    return given[0] if given else None


def _section(merged: dict[str, Any], name: str) -> dict[str, Any]:
    place = merged.setdefault(name, {})
    if not isinstance(place, dict):
        raise SettingsError(f"--set {name[:200]}: is set both as a whole and by one of its keys; set only one of them")
    return place
