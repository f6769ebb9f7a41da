"""Settings of the sources from which a pod reads its own rack, and the leading agent the racks of other pods."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from samerack.settings.base import Section

RackSource = Literal["env", "file", "label", "kubernetes", "cloud"]


class PodSettings(Section):
    """Where the rack of the pod that the agent runs in comes from; `samerack rack` shows what each source says."""

    sources: tuple[RackSource, ...] = Field(
        default=("env", "file", "label"),
        description="Sources for the rack of this pod; the first that has one wins. `kubernetes` and `cloud` use the "
        "network.",
    )
    rack_variable: str = Field(default="CLIENT_RACK", description="`env`: the environment variable that has the rack.")
    rack_file: str = Field(
        default="",
        description="`file`: a file whose first line is the rack, such as `samerack rack --write` makes.",
        examples=["/run/samerack/rack"],
    )
    label: str = Field(
        default="topology.kubernetes.io/zone",
        description="`label`, `kubernetes`: the label of pods and nodes that has the zone.",
    )
    zones: dict[str, str] = Field(
        default_factory=dict,
        description="The brokers' name of each rack, by zone name or id.",
        examples=[{"us-east-1a": "use1-az4"}],
    )
    kubernetes_account: str = Field(
        default="/var/run/secrets/kubernetes.io/serviceaccount",
        description="`kubernetes`: the folder with `token`, `ca.crt` and `namespace` of the pod's service account.",
    )
    kubernetes_members: bool = Field(
        default=False, description="Ask the Kubernetes API for the rack of each member that no other source knows."
    )
    kubernetes_namespaces: tuple[str, ...] = Field(
        default=(),
        description="Namespaces of members' pods, `*` for all; empty: the agent's own.",
        examples=[["orders", "payments"]],
    )
    cloud_zone: Literal["name", "id"] = Field(
        default="name", description="`cloud`: whether to use a zone's name or, on AWS, its id."
    )

    @field_validator("sources")
    @classmethod
    def _each_once(cls, sources: tuple[RackSource, ...]) -> tuple[RackSource, ...]:
        if len(set(sources)) < len(sources):
            raise ValueError("lists a source twice")
        return sources
