"""A Kubernetes API server as far as racks need it, on loopback: TLS by a CA of its own, tokens, rules, pods and nodes.

It speaks the API's JSON for the paths that are used, and answers errors with a `Status` as the real one does.
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from samerack.settings.leading import PodSettings
from tests.clouds.http_server import Answer, Asked, Server

ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "127.0.0.1"


@dataclass(slots=True, kw_only=True)
class PodObject:
    """A pod: where it runs, its address, its labels and its phase."""

    node: str
    address: str = "10.0.0.1"
    labels: dict[str, str] = field(default_factory=dict)
    phase: str = "Running"


class ApiServer(Server):
    """The server and the service account that it knows; a context manager that ends it."""

    def __init__(self, folder: Path, certificates: Path) -> None:
        """Make it of what `certify` has made; the folder is for the service account."""
        super().__init__()
        self.nodes: dict[str, dict[str, str]] = {}  # labels by node
        self.pods: dict[tuple[str, str], PodObject] = {}  # by namespace and name
        self.rules = {("get", "nodes", ""), ("get", "pods", "shop"), ("list", "pods", "shop")}
        """What the account may do: verb, resource and namespace, "" for the whole cluster."""
        self.token = "first"  # noqa: S105 - of nothing real
        self.account = folder / "account"
        self.account.mkdir()
        shutil.copy(certificates / "ca.crt", self.account)
        (self.account / "namespace").write_text("shop", encoding="utf-8")
        self.give_token(self.token)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of clients that do not trust it

    @property
    def url(self) -> str:
        """Its address."""
        return super().url.replace("http:", "https:")

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which Kubernetes says in each pod where its server is."""
        host, _, port = self.url.removeprefix("https://").partition(":")
        return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}

    def give_token(self, token: str) -> None:
        """Put a token where the pod reads it."""
        (self.account / "token").write_text(token, encoding="utf-8")

    def settings(self, **more: Any) -> PodSettings:
        """Settings of a pod with this account in this cluster."""
        given = {"sources": ("kubernetes",), "kubernetes_account": str(self.account)}
        return PodSettings.model_validate({**given, **more})

    def answer(self, asked: Asked) -> Answer:
        """The answer as JSON."""
        status, body = self._answer(asked.path, asked.headers.get("Authorization", ""))
        return Answer(status=status, text=json.dumps(body), headers={"Content-Type": "application/json"})

    def _answer(self, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        if authorization != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        parts = [unquote(part) for part in urlsplit(path).path.removeprefix("/api/v1/").split("/")]
        query = parse_qs(urlsplit(path).query)
        namespace = ""
        if parts[0] == "namespaces":
            namespace, parts = parts[1], parts[2:]
        resource, name = parts[0], "".join(parts[1:])
        verb = "get" if name else "list"
        if not {(verb, resource, namespace), (verb, resource, "")} & self.rules:
            scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            what = f'{resource} "{name}"' if name else resource
            user = "system:serviceaccount:shop:agent"
            return _status(
                403, f'{what} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "" {scope}'
            )
        if resource == "nodes":
            return (200, _node(name, self.nodes[name])) if name in self.nodes else _missing(resource, name)
        if name:
            pod = self.pods.get((namespace, name))
            return (200, _pod(name, pod)) if pod is not None else _missing(resource, name)
        wanted = query["fieldSelector"][0].split(",")
        found = [
            _pod(own, pod)
            for (place, own), pod in self.pods.items()
            if namespace in ("", place) and all(_selects(rule, pod) for rule in wanted)
        ]
        return 200, {"kind": "PodList", "apiVersion": "v1", "items": found[: int(query["limit"][0])]}


def _selects(rule: str, pod: PodObject) -> bool:
    key, _, value = rule.partition("=")
    values = {"status.podIP": pod.address, "status.phase": pod.phase}
    return values[key.rstrip("!")] != value if key.endswith("!") else values[key] == value


def _node(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "labels": labels}, "spec": {}}


def _pod(name: str, pod: PodObject) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": pod.labels},
        "spec": {"nodeName": pod.node} if pod.node else {},
        "status": {"podIP": pod.address, "phase": pod.phase},
    }


def _missing(resource: str, name: str) -> tuple[int, dict[str, Any]]:
    return _status(404, f'{resource} "{name}" not found')


def _status(code: int, message: str) -> tuple[int, dict[str, Any]]:
    return code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}


def certify(folder: Path) -> Path:
    """Make a CA and its certificate for loopback in this folder, and return the folder."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    ca = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    (folder / "names").write_text(f"subjectAltName=IP:{HOST}", encoding="utf-8")
    for line in (
        ["req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=kubernetes"],
        ["req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=kube-apiserver"],
        ["x509", "-req", "-in", "server.csr", *ca, "-extfile", "names", "-out", "server.crt"],
    ):
        subprocess.run(["openssl", *line], cwd=folder, check=True, capture_output=True)
    return folder
