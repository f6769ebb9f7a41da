"""Tests that names of releases do not collide, in one namespace or where releases of several namespaces meet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.helm.chart import Manifest, render, values_of

pytestmark = pytest.mark.helm

_NONE = "no namespace"
_RBAC = ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
_MONITORING = ("monitoring", "grafana")
"""Where the monitors, rules and dashboard of `all-on` are, of any release."""
_LONG = "consumers-of-orders-and-payments-in-production-"

Release = tuple[str, str]
"""A namespace and the name of a release in it."""

PAIRS: dict[str, tuple[Release, Release]] = {
    "same name in two namespaces": (("orders", "samerack"), ("payments", "samerack")),
    "two names in one namespace": (("orders", "samerack"), ("orders", "samerack-eu")),
    "two names that begin alike": (("orders", f"{_LONG}east"), ("orders", f"{_LONG}west")),
    "two long namespaces that begin alike": (
        (f"{_LONG}east-1-payments", "samerack"),
        (f"{_LONG}east-1-orders", "samerack"),
    ),
    "namespace and name that add up to the same": (("a-b", "c-samerack"), ("a", "b-c-samerack")),
}
_ASKING = (
    {"pod": {"kubernetes_members": True, "kubernetes_namespaces": ["shop"]}},
    {"pod": {"sources": ["kubernetes"], "kubernetes_members": True, "kubernetes_namespaces": ["*"]}},
)


def _everything(folder: Path, config: Manifest) -> tuple[str | Path, ...]:
    """Values that render every kind of object, with names made by the chart."""
    path = folder / "values.yaml"
    claims = {"volume": {"create": True, "existingClaim": ""}}
    names: Manifest = {"nameOverride": "", "fullnameOverride": "", "serviceAccount": {"name": ""}, "pipeline": claims}
    path.write_text(yaml.safe_dump({**names, "config": config}), encoding="utf-8")
    return ("--values", values_of("all-on"), "--values", path)


def _objects(manifests: tuple[Manifest, ...]) -> Iterator[tuple[str, str, str]]:
    for each in manifests:
        yield each["kind"], each["metadata"].get("namespace", _NONE), each["metadata"]["name"]


@pytest.mark.parametrize("pod", _ASKING, ids=["members of one namespace", "members of all"])
@pytest.mark.parametrize("pair", PAIRS)
def test_two_releases_share_no_object(pair: str, pod: Manifest, tmp_path: Path) -> None:
    """No two objects share kind, namespace and name; the first also has roles outside its own namespace."""
    options = _everything(tmp_path, pod)
    first, second = (
        set(_objects(render(*options, namespace=namespace, release=release))) for namespace, release in PAIRS[pair]
    )
    assert not first & second
    elsewhere = {kind for kind, namespace, _ in first if namespace not in (PAIRS[pair][0][0], *_MONITORING)}
    assert elsewhere <= set(_RBAC)
    assert elsewhere


@pytest.mark.parametrize("release", ["a", "samerack", "r" * 53, f"{_LONG}-east"[:53], "a" * 40 + "." + "b" * 12])
def test_names_have_the_length_that_kubernetes_takes(release: str, tmp_path: Path) -> None:
    """Names have at most 63 characters, of a CronJob 52, and begin and end with a letter or digit."""
    namespace = "n" * 63
    for kind, _, name in _objects(render(*_everything(tmp_path, _ASKING[0]), namespace=namespace, release=release)):
        assert len(name) <= (52 if kind == "CronJob" else 63), (kind, name)
        assert name[0].isalnum()
        assert name[-1].isalnum()


def test_a_long_name_of_the_reader_s_own_is_cut_too(tmp_path: Path) -> None:
    """Two names with the same beginning stay different."""
    found = []
    for end in ("east", "west"):
        path = tmp_path / f"{end}.yaml"
        path.write_text(yaml.safe_dump({"fullnameOverride": f"{_LONG}{end}"}), encoding="utf-8")
        found.append(set(_objects(render("--values", values_of("all-on"), "--values", path))))
    assert not {one for one in found[0] if one[0] in ("Deployment", "CronJob")} & found[1]
    assert all(len(name) <= 52 for kind, _, name in found[0] if kind == "CronJob")


def test_every_role_outside_has_the_namespace_of_its_release(tmp_path: Path) -> None:
    """In other namespaces, a role's name shows the namespace of its release."""
    options = _everything(tmp_path, _ASKING[0])
    roles = [each for each in _objects(render(*options, namespace="orders", release="samerack")) if each[0] in _RBAC]
    assert {name for _, _, name in roles} == {"orders:samerack"}


def test_short_names_stay_as_they_are() -> None:
    """Short names get no hash, because people type them."""
    names = {name for _, _, name in _objects(render("--values", values_of("minimal"), release="samerack"))}
    assert names == {"samerack", "samerack-config", "samerack-test"}
