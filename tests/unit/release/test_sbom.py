"""Bills of materials: what locks and projects name is in them, and each is valid SPDX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from release import sbom
from release.errors import ReleaseError
from release.sbom import Component

ROOT = Path(__file__).parents[3]


def test_every_locked_package_is_named() -> None:
    """By name, version and, where it is not needed everywhere, the condition."""
    text = (ROOT / "locks" / "install.lock").read_text()
    found = sbom.locked(ROOT / "locks" / "install.lock")
    assert len(found) == sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines())
    assert {"confluent-kafka", "kafka-python", "ortools"} <= {one.name for one in found}
    (conditional, *_) = [one for one in found if one.note]
    assert conditional.note.startswith("needed where ")
    assert "\\" not in conditional.note


def test_a_lock_without_packages_is_refused(tmp_path: Path) -> None:
    """It would be a bill of nothing."""
    (tmp_path / "x.lock").write_text("# none\n")
    with pytest.raises(ReleaseError, match="no package in it"):
        sbom.locked(tmp_path / "x.lock")


@pytest.mark.parametrize(
    ("project", "needed"), [("broker", "kafka-group-coordinator-api"), ("streams", "kafka-streams")]
)
def test_jars_name_what_loads_them(project: str, needed: str) -> None:
    """With the version that they were compiled against; nothing of it is in the jar."""
    found = sbom.provided(ROOT / "java" / project / "pom.xml")
    assert f"org.apache.kafka:{needed}" in {one.name for one in found}
    assert all(one.version[0].isdigit() for one in found)


@pytest.mark.parametrize("name", ["p-1.whl", "p-1.tar.gz", "p-1.jar", "p-1.tgz", "p-1-image.tar"])
def test_every_document_is_valid_spdx(tmp_path: Path, name: str) -> None:
    """Also with licences that SPDX does not know, and the same bytes each time."""
    artefact = tmp_path / name
    artefact.write_bytes(b"artefact")
    needs = [
        Component(name="b", version="2", address="pkg:pypi/b@2", licence="MIT OR Apache-2.0"),
        Component(name="a", version="1", address="pkg:pypi/a@1", licence="as you like", note="needed where it rains"),
    ]
    for target, given in (("1.json", needs), ("2.json", needs[::-1])):
        sbom.write(artefact, tmp_path / target, version="0.2.0", epoch=1_700_000_000, needs=given)
    assert (tmp_path / "1.json").read_bytes() == (tmp_path / "2.json").read_bytes()
    shown: Any = json.loads((tmp_path / "1.json").read_text())
    assert [one["name"] for one in shown["packages"]] == [name, "a", "b"]
    assert [one.get("licenseDeclared") for one in shown["packages"]] == [
        "Apache-2.0",
        "NOASSERTION",
        "MIT OR Apache-2.0",
    ]
    (tmp_path / "1.json").rename(tmp_path / "1.spdx.json")
    assert not validate_full_spdx_document(parse_file(str(tmp_path / "1.spdx.json")))
