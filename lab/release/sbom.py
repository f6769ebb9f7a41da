"""Software bills of materials: for each artefact one SPDX 2.3 document of what it is made of and what it needs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from license_expression import ExpressionError, LicenseExpression, get_spdx_licensing
from spdx_tools.spdx.model import (
    Actor,
    ActorType,
    Checksum,
    ChecksumAlgorithm,
    CreationInfo,
    Document,
    ExternalPackageRef,
    ExternalPackageRefCategory,
    Package,
    PackagePurpose,
    Relationship,
    RelationshipType,
    SpdxNoAssertion,
)
from spdx_tools.spdx.writer.json.json_writer import write_document_to_stream

from lab.release.errors import ReleaseError

LICENCE: Final = "Apache-2.0"
_LOCKED: Final = re.compile(
    r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>\S+)(?: ; (?P<where>[^\\]+?))?(?: \\)?$", re.MULTILINE
)
_MAVEN: Final = "{http://maven.apache.org/POM/4.0.0}"
_PURPOSES: Final = {
    ".whl": PackagePurpose.APPLICATION,
    ".jar": PackagePurpose.LIBRARY,
    ".tgz": PackagePurpose.INSTALL,
    ".tar": PackagePurpose.CONTAINER,
}
_LICENCES: Final = get_spdx_licensing()  # type: ignore[no-untyped-call]  # it has no types


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Something that an artefact contains or needs."""

    name: str
    version: str
    address: str  # its package URL (purl)
    licence: str = ""  # an SPDX expression; empty where it declares none
    note: str = ""  # when it is needed, or who provides it


def locked(lock: Path) -> list[Component]:
    """Return the Python packages of a lock file.

    Raises:
        ReleaseError: It has none.
    """
    text = lock.read_text(encoding="utf-8")
    found = [
        Component(
            name=one["name"],
            version=one["version"],
            address=f"pkg:pypi/{one['name']}@{one['version']}",
            note=f"needed where {one['where']}" if one["where"] else "",
        )
        for one in _LOCKED.finditer(text)
    ]
    if not found:
        raise ReleaseError(f"{lock}: no package in it")
    return found


def provided(pom: Path) -> list[Component]:
    """Return what a jar needs and does not contain, as its project names it."""
    project = ET.parse(pom).getroot()  # noqa: S314 - our own file
    properties = {
        f"${{{one.tag.removeprefix(_MAVEN)}}}": one.text or "" for one in project.find(f"{_MAVEN}properties") or ()
    }
    found = []
    for dependency in project.findall(f"{_MAVEN}dependencies/{_MAVEN}dependency"):
        fields = {one.tag.removeprefix(_MAVEN): one.text or "" for one in dependency}
        if fields.get("scope") != "provided":
            continue
        group, name, version = (
            properties.get(fields[key], fields[key]) for key in ("groupId", "artifactId", "version")
        )
        found.append(
            Component(
                name=f"{group}:{name}",
                version=version,
                address=f"pkg:maven/{group}/{name}@{version}",
                note="compiled against this version; the program that loads the jar provides its own",
            )
        )
    return found


def bundled(jar: str, described: Iterable[str]) -> list[Component]:
    """Return what a jar in an image contains: the projects by their pom.properties, else what its file name says."""
    found = []
    for text in described:
        fields = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line)
        group, name, version = (fields[key] for key in ("groupId", "artifactId", "version"))
        address = f"pkg:maven/{group}/{name}@{version}"
        found.append(Component(name=f"{group}:{name}", version=version, address=address, note=f"in {jar}"))
    name, _, version = jar.removesuffix(".jar").rpartition("-")
    return found or [Component(name=name, version=version, address=f"pkg:generic/{name}@{version}")]


def write(
    artefact: Path,
    target: Path,
    *,
    version: str,
    epoch: int,
    needs: Iterable[Component] = (),
    contains: Iterable[Component] = (),
) -> None:
    """Write the document of one artefact: of what it contains, and of what it needs and does not contain.

    The release is of this version, and of this time in seconds since 1970.

    Raises:
        ReleaseError: The document is not valid SPDX.
    """
    with artefact.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    itself = Package(
        spdx_id="SPDXRef-Artefact",
        name=artefact.name,
        version=version,
        file_name=artefact.name,
        download_location=SpdxNoAssertion(),
        files_analyzed=False,
        checksums=[Checksum(ChecksumAlgorithm.SHA256, digest)],
        license_declared=_expression(LICENCE),
        primary_package_purpose=_PURPOSES.get(artefact.suffix, PackagePurpose.SOURCE),
    )
    packages, relationships = [itself], [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, itself.spdx_id)]
    for components, relation in ((needs, RelationshipType.DEPENDS_ON), (contains, RelationshipType.CONTAINS)):
        for package in _packages(sorted(components, key=lambda one: one.address), first=len(packages)):
            packages.append(package)
            relationships.append(Relationship(itself.spdx_id, relation, package.spdx_id))
    document = Document(
        creation_info=CreationInfo(
            spdx_version="SPDX-2.3",
            spdx_id="SPDXRef-DOCUMENT",
            name=artefact.name,
            document_namespace=f"urn:sha256:{digest}",
            creators=[Actor(ActorType.TOOL, f"samerack-release-{version}")],
            created=datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None),
        ),
        packages=packages,
        relationships=relationships,
    )
    text = StringIO()
    try:
        write_document_to_stream(document, text)
    except ValueError as error:
        raise ReleaseError(f"{target.name}: {error}") from error
    target.write_text(text.getvalue() + "\n", encoding="utf-8")


def _packages(components: Sequence[Component], *, first: int) -> Iterable[Package]:
    for number, one in enumerate(components, start=first):
        reference = ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", one.address)
        yield Package(
            spdx_id=f"SPDXRef-Package-{number}",
            name=one.name,
            version=one.version,
            download_location=SpdxNoAssertion(),
            files_analyzed=False,
            license_declared=_expression(one.licence),
            comment=one.note or None,
            external_references=[reference],
        )


def _expression(licence: str) -> LicenseExpression | SpdxNoAssertion:
    """Return the licence; one that SPDX does not know is listed as none."""
    try:
        expression = _LICENCES.parse(licence, validate=True)  # it has no truth value
    except ExpressionError:
        return SpdxNoAssertion()
    return SpdxNoAssertion() if expression is None else expression
