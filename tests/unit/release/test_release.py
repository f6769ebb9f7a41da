"""The parts of scripts/release that it does not prove itself: what may be released, same bytes, bills of materials."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from lab.release import repack, sbom
from lab.release.errors import ReleaseError, WrongInputError
from lab.release.prove import plan
from lab.release.source import checked, copy
from tests.docs import ROOT

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- Next.\n\n## 0.2.0\n\n- This.\n\n## 0.1.0\n\n- Before.\n"
EPOCH = 1_700_000_000


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit, tagged v0.2.0."""
    root = tmp_path / "checkout"
    root.mkdir()
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    (root / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "0.1.0"\n')
    environment = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_COMMITTER_DATE": f"{EPOCH} +0000", "GIT_AUTHOR_DATE": f"{EPOCH} +0000",
    }  # fmt: skip
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"], ["tag", "v0.2.0"]):
        line = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *words]
        subprocess.run(line, check=True, env=environment)
    return root


def test_a_tagged_commit_with_a_section_is_copied_with_its_version(checkout: Path, tmp_path: Path) -> None:
    """Time and notes are those of the commit and of its changelog; what lies about in the checkout is not released."""
    source = checked(checkout, "0.2.0", trial=False)
    assert (source.epoch, source.notes, source.warnings) == (EPOCH, "- This.", ())
    (checkout / "private").touch()
    copy(checkout, "HEAD", "0.2.0", tmp_path / "copy")
    assert sorted(one.name for one in (tmp_path / "copy").iterdir()) == ["CHANGELOG.md", "pyproject.toml"]
    assert 'version = "0.2.0"' in (tmp_path / "copy" / "pyproject.toml").read_text()


def test_what_may_not_be_released_is_refused(checkout: Path) -> None:
    """A wrong version; all that is missing at once, of which a trial only warns."""
    with pytest.raises(WrongInputError, match=r"MAJOR\.MINOR\.PATCH"):
        checked(checkout, "v0.2.0", trial=True)
    (checkout / "new").touch()
    with pytest.raises(WrongInputError) as error:
        checked(checkout, "0.3.0", trial=False)
    message = str(error.value)
    assert all(word in message for word in ("in no commit", "git tag --sign v0.3.0", "## 0.3.0", "--dry-run"))
    trial = checked(checkout, "0.3.0", trial=True)
    assert (trial.notes, len(trial.warnings)) == ("- Next.", 3)


def _archive(path: Path, files: Mapping[str, bytes], *, mtime: int, mode: str = "w") -> Path:
    """Write an archive as a program does that does not care for the time."""
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]  # any mode
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uid, entry.uname = len(content), mtime, mtime % 1000, "somebody"
            out.addfile(entry, BytesIO(content))
    return path


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    """Helm and Docker write the time, names of containers, and files in any order; an image's digests are right."""
    layer = _archive(tmp_path / "layer", {"opt/samerack/x": b"x"}, mtime=EPOCH).read_bytes()
    for number, order in ((1, 1), (2, -1)):
        chart = dict([("samerack/Chart.yaml", b"name: samerack"), ("samerack/values.yaml", b"{}")][::order])
        packed = _archive(tmp_path / f"{number}.tgz", chart, mtime=number, mode="w:gz")
        repack.chart(packed, tmp_path / f"chart-{number}", epoch=EPOCH)
        config = {
            "architecture": "amd64", "os": "linux", "created": f"{number}", "container": f"c{number}",
            "config": {"Hostname": f"h{number}", "Cmd": ["run"], "Labels": {"build.machine": f"m{number}"}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }  # fmt: skip
        manifest = [{"Config": "c.json", "RepoTags": ["samerack:0.2.0"], "Layers": ["1/layer.tar"]}]
        files = {"manifest.json": json.dumps(manifest).encode(), "c.json": json.dumps(config).encode()}
        saved = _archive(tmp_path / f"{number}.tar", {**files, "1/layer.tar": layer}, mtime=number)
        repack.image(saved, tmp_path / f"image-{number}", name="samerack:0.2.0", epoch=EPOCH)
    for what in ("chart", "image"):
        assert (tmp_path / f"{what}-1").read_bytes() == (tmp_path / f"{what}-2").read_bytes()
    with tarfile.open(tmp_path / "image-1") as made:
        blobs = {one.name: made.extractfile(one).read() for one in made if "blobs/" in one.name}  # type: ignore[union-attr]  # only files
    assert len(blobs) == 3
    assert all(hashlib.sha256(content).hexdigest() == name.rpartition("/")[2] for name, content in blobs.items())


def test_bills_of_materials_are_valid_and_name_what_is_needed(tmp_path: Path) -> None:
    """Every locked package and the classes beside a jar; also with licences that SPDX does not know."""
    locked = sbom.locked(ROOT / "scripts" / "locks" / "install.lock")
    assert {"confluent-kafka", "kafka-python", "ortools"} <= {one.name for one in locked}
    provided = sbom.provided(ROOT / "java" / "streams" / "pom.xml")
    assert "org.apache.kafka:kafka-streams" in {one.name for one in provided}
    described = ["#made\r\nversion=2.0\r\ngroupId=org.a\r\nartifactId=b\r\n"]
    bundled = [*sbom.bundled("b-all-2.0.jar", described), *sbom.bundled("c_2.13-1.5.jar", [])]
    assert [one.address for one in bundled] == ["pkg:maven/org.a/b@2.0", "pkg:generic/c_2.13@1.5"]
    unknown = sbom.Component(name="a", version="1", address="pkg:pypi/a@1", licence="as you like")
    artefact, target = tmp_path / "p-1.whl", tmp_path / "1.spdx.json"
    artefact.write_bytes(b"artefact")
    sbom.write(artefact, target, version="0.2.0", epoch=EPOCH, needs=[*locked, *provided, unknown])
    shown: Any = json.loads(target.read_text())
    assert len(shown["packages"]) == 1 + len(locked) + len(provided) + 1
    assert not validate_full_spdx_document(parse_file(str(target)))


def test_the_workflow_makes_the_release_as_everybody_does() -> None:
    """The version is the tag's, every script in it is valid shell, and no registry is named: forks have their own."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    steps = _steps(yaml.safe_load(text)["jobs"])
    scripts = [step["run"] for step in steps if "run" in step]
    assert [one for one in scripts if "scripts/release" in one] == ['scripts/release "${GITHUB_REF_NAME#v}" --to made']
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert not [name for name in ("ghcr.io", "docker.io", "quay.io", "pypi.org") if name in text]


def test_the_workflow_signs_what_it_publishes_without_a_key() -> None:
    """Images, chart and checksums have a signature by the identity of the one job that may ask for it."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))["jobs"]
    assert [name for name, job in jobs.items() if job.get("permissions", {}).get("id-token") == "write"] == ["publish"]
    signed = {
        step["name"]: re.findall(r"^ *cosign (sign\S*) --yes .*?(\S+)$", step["run"], re.MULTILINE)
        for step in _steps({"publish": jobs["publish"]})
        if "cosign sign" in step.get("run", "")
    }
    assert {name: [verb for verb, _ in lines] for name, lines in signed.items()} == {
        "Images": ["sign"],
        "Chart": ["sign"],
        "Files, with their signature": ["sign-blob"],
    }
    assert "--key" not in str(jobs)
    assert signed["Images"][0][1] == '"$image@sha256:$digest"'  # not a tag, which may be another image later


def _steps(jobs: Mapping[str, Any]) -> list[Any]:
    return [step for job in jobs.values() for step in job["steps"]]


def test_a_program_proves_itself_by_a_plan(tmp_path: Path) -> None:
    """The checkout's own plans a group of two racks; what prints no plan, or one across racks, is refused."""
    plan(tmp_path / "wheel", tmp_path, str(Path(sys.executable).with_name("samerack")))
    for given, message in (
        ("nothing", "instead of a plan"),
        ('{"cross_rack": 2}', "reads 2 partitions across racks"),
    ):
        with pytest.raises(ReleaseError, match=message):
            plan(tmp_path / "wheel", tmp_path, "sh", "-c", f"echo '{given}'")
