"""Commands in messages: complete, and quoted for a shell, so that they can be copied into one."""

from __future__ import annotations

import shlex


def command(name: str, *options: str, group: str | None = None, bootstrap: str = "", url: str = "") -> str:
    """Returns a command of `samerack` between backticks.

    Args:
        name: the command, such as `plan` or `streams plan`.
        options: its own options.
        group: its argument.
        bootstrap: brokers, for a command that asks them; with settings in SAMERACK_CONFIG it does without.
        url: address of the agent, for one that asks an agent elsewhere than at the address of the settings.
    """
    words = list(options)
    words += ["-b", bootstrap] if bootstrap else []
    words += ["--url", url] if url else []
    if group is not None:
        words = [*words, "--", group] if group.startswith("-") else [group, *words]
    return f"`{shlex.join(['samerack', *name.split(), *words])}`"
