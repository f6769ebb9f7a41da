"""Finds the rack of the agent's own pod: asks the sources of `pod.sources` in order, until one knows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from samerack.agent.pod.cloud import zones_of_this_machine
from samerack.agent.pod.kubernetes import zones_of_this_pod
from samerack.agent.pod.local import from_file, from_label, from_variable
from samerack.agent.pod.source_answers import OwnRack, SourceAnswer, rack_of
from samerack.settings.all_settings import Settings
from samerack.settings.pod import PodSettings, RackSource

_SOURCES: Final[Mapping[RackSource, Callable[[PodSettings, Mapping[str, str]], SourceAnswer]]] = {
    "env": from_variable,
    "file": from_file,
    "label": from_label,
    "kubernetes": zones_of_this_pod,
    "cloud": zones_of_this_machine,
}


def own_rack(settings: PodSettings, environment: Mapping[str, str] | None = None, *, every: bool = False) -> OwnRack:
    """Return this pod's rack from the first source that knows it; never fails, as each answer says what went wrong.

    With `every`, ask the sources after it as well, to show what they say.
    """
    environment = os.environ if environment is None else environment
    answers: list[SourceAnswer] = []
    rack: str | None = None
    source: RackSource | None = None
    for name in settings.sources:
        if rack is not None and not every:
            break
        answer = _checked(_SOURCES[name](settings, environment))
        answers.append(answer)
        if rack is None and answer.zones:
            rack, source = rack_of(answer.zones, settings.zones), name
    return OwnRack(rack=rack, source=source, answers=tuple(answers))


def with_own_rack(settings: Settings, own: OwnRack) -> Settings:
    """Return the settings with `traffic.rack` from this pod, unless it is set."""
    if settings.traffic.rack or own.rack is None:
        return settings
    return settings.model_copy(update={"traffic": settings.traffic.model_copy(update={"rack": own.rack})})


def _checked(answer: SourceAnswer) -> SourceAnswer:
    """Remove zones that are not valid names: what is written for applications must stay on one line."""
    if all(zone.isprintable() and len(zone) <= 255 for zone in answer.zones):
        return answer
    return replace(answer, zones=(), detail=f"{answer.detail}: has {answer.zones[0][:40]!r}, which is no name")
