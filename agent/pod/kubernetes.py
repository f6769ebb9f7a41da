"""Reads from the Kubernetes API what racks need: a pod by name or address, a node by name, their labels.

The service account's token is read again for each request, because Kubernetes replaces it. A refusal names the missing
RBAC rule.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from samerack.agent.pod.sources import ANSWER_SECONDS, SourceAnswer
from samerack.common.errors import AgentError
from samerack.common.fetching import NoAnswerError, ask
from samerack.settings.leading import PodSettings

EVERY_NAMESPACE: Final = "*"
_MAX_PODS: Final = 5
"""Pods that share an address run on one node; those that ended there before may still be listed."""


class KubernetesError(AgentError):
    """The API gave no usable answer; the message says why, and what to grant where it refused."""


class NoSuchNodeError(KubernetesError):
    """A node does not exist (any more)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """Where a pod runs: its node, and the zone in its own label; "" where it has none."""

    node: str
    zone: str


class Api:
    """A client of one API server."""

    def __init__(self, settings: PodSettings, environment: Mapping[str, str]) -> None:
        """Find the server; no request is sent.

        Raises:
            KubernetesError: Kubernetes has set no address, so this is not a pod.
        """
        self._url = _in_cluster(environment)
        self._account = Path(settings.kubernetes_account)
        self._label = settings.label

    def namespace(self, environment: Mapping[str, str]) -> str:
        """Return the pod's own namespace: POD_NAMESPACE, else the service account's.

        Raises:
            KubernetesError: Neither is known.
        """
        return environment.get("POD_NAMESPACE", "") or self._of_account("namespace")

    def zone_of_node(self, name: str) -> str:
        """Return the zone in a node's label, "" where it has none.

        Raises:
            NoSuchNodeError: No node has this name.
            KubernetesError: No answer, or a refusal.
        """
        node = self._get(f"/api/v1/nodes/{quote(name, safe='')}", verb="get", resource="nodes", namespace="")
        if node is None:
            raise NoSuchNodeError(f"{self._url}: node {name!r} does not exist")
        return self._zone(node)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod by name; None if it does not exist.

        Raises:
            KubernetesError: No answer, or a refusal.
        """
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
        found = self._get(path, verb="get", resource="pods", namespace=namespace)
        return self._pod(found) if found is not None else None

    def pod_at(self, namespace: str, address: str) -> Pod | None:
        """Return the pod that has an address in a namespace, or in any for `*`; None if no pod on a node has it.

        Raises:
            KubernetesError: No answer, or a refusal.
        """
        place = "" if namespace == EVERY_NAMESPACE else f"/namespaces/{quote(namespace, safe='')}"
        # pods that have ended keep their address, which others may have by now
        wanted = f"status.podIP={address},status.phase!=Succeeded,status.phase!=Failed"
        query = urlencode({"fieldSelector": wanted, "limit": _MAX_PODS})
        listed = self._get(f"/api/v1{place}/pods?{query}", verb="list", resource="pods", namespace=namespace)
        items = (listed or {}).get("items") or ()
        found = (self._pod(item) for item in items if isinstance(item, dict))
        return next((pod for pod in found if pod.node), None)

    def zone_of(self, pod: Pod) -> str:
        """Return a pod's zone: from its own label (Kubernetes 1.35 on), else from its node's; "" without either.

        Raises:
            KubernetesError: As `zone_of_node`.
        """
        return pod.zone or (self.zone_of_node(pod.node) if pod.node else "")

    def _zone(self, entity: Mapping[str, Any]) -> str:
        labels = _part(_part(entity, "metadata"), "labels")
        return str(labels.get(self._label) or "")

    def _pod(self, entity: Mapping[str, Any]) -> Pod:
        return Pod(node=str(_part(entity, "spec").get("nodeName") or ""), zone=self._zone(entity))

    def _get(self, path: str, *, verb: str, resource: str, namespace: str) -> dict[str, Any] | None:
        """Return the object at a path; None if it does not exist."""
        headers, tls = {"Accept": "application/json"}, None
        if self._url.startswith("https://"):
            headers["Authorization"] = f"Bearer {self._of_account('token')}"
            tls = self._trust()
        try:
            answer = ask(self._url, path, seconds=ANSWER_SECONDS, headers=headers, tls=tls)
        except NoAnswerError as error:
            raise KubernetesError(f"the Kubernetes API at {error}") from None
        if answer.status == 404:
            return None
        if answer.status == 401:
            raise KubernetesError(
                f"the Kubernetes API at {self._url} rejects this service account (401): {_message(answer.body)}; is "
                f"{self._account / 'token'} of this cluster?"
            )
        if answer.status == 403:
            raise KubernetesError(
                f"the Kubernetes API refuses (403): {_message(answer.body)}; bind the service account to "
                f"{_needed(verb, resource, namespace)}"
            )
        if answer.status != 200:
            raise KubernetesError(f"the Kubernetes API at {self._url} answers {answer.status}: {_message(answer.body)}")
        found = _object(answer.body)
        if found is None:
            raise KubernetesError(f"{self._url}: did not return a JSON object; is it a Kubernetes API server?")
        return found

    def _of_account(self, name: str) -> str:
        try:
            return (self._account / name).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise KubernetesError(
                f"{self._account / name}: cannot be read ({error.strerror}); give the pod a service account with "
                "automountServiceAccountToken: true, or set pod.kubernetes_account"
            ) from None

    def _trust(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=str(self._account / "ca.crt"))
        except (OSError, ssl.SSLError) as error:
            raise KubernetesError(f"{self._account / 'ca.crt'}: cannot be used ({error.strerror or error})") from None


def zones_of_this_pod(settings: PodSettings, environment: Mapping[str, str]) -> SourceAnswer:
    """Return the zone of this pod from the Kubernetes API: by node name, pod name or address, whichever is set.

    NODE_NAME, POD_NAME with POD_NAMESPACE, and POD_IP come from the downward API; HOSTNAME is a pod's name by default.
    """
    try:
        return _of_this_pod(Api(settings, environment), settings, environment)
    except KubernetesError as error:
        return SourceAnswer(source="kubernetes", detail=str(error))


def _of_this_pod(api: Api, settings: PodSettings, environment: Mapping[str, str]) -> SourceAnswer:
    node, name, address = (environment.get(key, "") for key in ("NODE_NAME", "POD_NAME", "POD_IP"))
    if node:
        zone, what = api.zone_of_node(node), f"node {node}"
    else:
        namespace = api.namespace(environment)
        host = environment.get("HOSTNAME", "")
        if name or not address:
            pod, what = api.pod(namespace, name or host), f"pod {namespace}/{name or host}"
        else:
            pod, what = api.pod_at(namespace, address), f"pod at {address} in {namespace}"
        if pod is None:
            return SourceAnswer(
                source="kubernetes",
                detail=f"{what} does not exist; set NODE_NAME with the downward API (spec.nodeName)",
            )
        zone = api.zone_of(pod)
        what += f" on node {pod.node}" if pod.node else ""
    if not zone:
        return SourceAnswer(source="kubernetes", detail=f"{what} has no label {settings.label}")
    return SourceAnswer(source="kubernetes", zones=(zone,), detail=f"the label {settings.label} of {what}")


def _in_cluster(environment: Mapping[str, str]) -> str:
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise KubernetesError(
            "KUBERNETES_SERVICE_HOST is not set: this is not a pod; set it and KUBERNETES_SERVICE_PORT to those of the "
            "API server"
        )
    port = environment.get("KUBERNETES_SERVICE_PORT_HTTPS") or environment.get("KUBERNETES_SERVICE_PORT") or "443"
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def _needed(verb: str, resource: str, namespace: str) -> str:
    rule = f'the rule {{apiGroups: [""], resources: [{resource}], verbs: [{verb}]}}'
    if namespace in ("", EVERY_NAMESPACE):
        return f"a ClusterRole with {rule}"
    return f"a Role in namespace {namespace} with {rule}"


def _part(entity: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = entity.get(key)
    return part if isinstance(part, dict) else {}


def _object(body: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None if the body has none."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _message(body: bytes) -> str:
    """Return the message of a `Status`, on one line."""
    text = (_object(body) or {}).get("message")
    return " ".join(str(text or "no reason given").split())[:300]
