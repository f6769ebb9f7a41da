"""The commands of `samerack`: the module that registers each, and whether it is light. Imports nothing else.

The program loads modules by this table: `samerack health` and `samerack rack` must start fast, and a heavy command must
not use the memory of an agent beside which it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    """A command.

    Attributes:
        module: the module in `samerack` whose `register` adds it; that of `codec` adds two.
        light: whether it is loaded alone, without clients and solvers: what probes and init containers call, and what
            only watches over the agent. Any other command loads much and may run beside an agent in its container, so
            its memory is bounded (`cli.memory_bound`).
    """

    module: str
    light: bool = False


COMMANDS: Final[Mapping[str, Command]] = {
    "run": Command("cli.run", light=True),
    "plan": Command("cli.plan"),
    "verify": Command("cli.verify"),
    "cost": Command("cli.cost"),
    "top": Command("cli.top"),
    "lead": Command("cli.lead"),
    "events": Command("cli.events"),
    "curve": Command("cli.curve"),
    "rack": Command("cli.rack", light=True),
    "health": Command("cli.health", light=True),
    "assign": Command("offline.assign"),
    "streams": Command("offline.streams"),
    "decode": Command("offline.codec"),
    "encode": Command("offline.codec"),
    "settings": Command("cli.settings_reference"),
}
"""The commands by name, in the order of `samerack --help`, which shows groups of commands last."""
