"""Describes, as text, how the agent will come to lead a running group, based on simulations only.

The results are those of `scripts/simulate --deploys 200`, which docs/leading.md shows.
"""

from __future__ import annotations

from typing import Final

from samerack.cluster.group import EAGER, GroupView, no_room_reason
from samerack.cluster.joining import SOUND_PROTOCOLS, refusal
from samerack.settings.cures import command
from samerack.settings.leading import LeadingSettings

_BIRTH: Final = "with its first consumers once all have been stopped"


def after_leave(view: GroupView | None, leading: LeadingSettings, *, lead_again: bool) -> str:
    """Return what comes after the agent was out of a group on request: how it comes to lead it again, as far as known.

    `view` is how the group was last seen stable, without the agent; None if it was not.
    """
    follows = "the agent follows the group's own leader"
    if view is None:
        return follows
    if reason := refusal(view, leading):
        return f"the agent observes it: {reason}"
    if lead_again and view.protocol in EAGER:
        return f"{follows}, and takes over as leader as soon as the policy allows"
    return f"{follows}, and leads {prospect(view, leading, worth_it=True)}"


def prospect(
    view: GroupView,
    leading: LeadingSettings,
    *,
    worth_it: bool,
    bootstrap: str = "",
    max_size: int | None = None,
) -> str:
    """Return how an agent, which may be in it or not, comes to lead this stable group.

    `worth_it` is whether a plan saves enough for a takeover, which is refused otherwise. `bootstrap` is for an agent
    that is to be started first; it is empty where one follows the group. `max_size` is `group.max.size`, if known.
    """
    consumers = sum(one.instance_id != leading.instance_id for one in view.members)
    if reason := refusal(view, leading) or no_room_reason(consumers, max_size):
        return f"not while it runs: {reason}"
    if view.protocol in SOUND_PROTOCOLS:
        ways = ["when its leader leaves, nearly always within one rolling deploy"]
    else:
        ways = [f"{_BIRTH}; in a rolling deploy by chance only"]
    if worth_it and view.protocol in EAGER:
        run = command("run", "--group", view.name, bootstrap=bootstrap) if bootstrap else ""
        ways.append(f"at once by {command('lead', group=view.name)}" + (f", where {run} runs" if run else ""))
    if static := sum(one.instance_id not in (None, leading.instance_id) for one in view.members):
        ways.append(
            f"but {static} of its members are static, and a static leader that restarts within its session keeps the "
            f"lead and is never evicted: {_BIRTH} then"
        )
    return "; ".join(ways)
