"""Settings of the agent's HTTP port and log."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from samerack.common.settings.base import Names, Section


class WebSettings(Section):
    """The agent's own HTTP port: the page, `/v1/…`, `/metrics`, `/healthz`, `/readyz`."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    hosts: Names = Field(
        default=(),
        description="Further names by which the port may be asked, of an ingress for instance; addresses, names "
        "without dots and those of Kubernetes services always may.",
        examples=[["samerack.example.org"]],
    )
    port: int = Field(default=9464, ge=0, le=65535, description="Port to listen on; 0 takes a free one and logs it.")


class LogSettings(Section):
    """Structured logs on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(default="info", description="Least level shown.")
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="`auto`: colours on a terminal, one JSON object a line otherwise."
    )
