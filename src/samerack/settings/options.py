"""Options that several subcommands share; `settings.flags` makes settings of them.

What may be given once is a list all the same, so that a second is refused; the library would take the last silently.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    list[Path] | None,
    typer.Option("--config", "-c", help="YAML file with settings (default: SAMERACK_CONFIG).", show_default=False),
]
BootstrapOption = Annotated[
    list[str] | None,
    typer.Option("--bootstrap-servers", "-b", help="HOST:PORT[,HOST:PORT...] of some brokers.", show_default=False),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Any setting, e.g. -s policy.min_saving=0.02 or -s kafka.security.protocol=SSL; may be repeated.",
        show_default=False,
    ),
]
