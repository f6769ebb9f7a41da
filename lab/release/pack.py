"""Collects what was built into one folder: names, the same bytes each time, bills of materials, notes and checksums."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Final

from lab.release import repack, sbom
from lab.release.errors import ReleaseError
from lab.release.sbom import Component
from lab.release.source import Source

JARS: Final = {"samerack-broker-assignor": "java/broker", "samerack-streams-assignor": "java/streams"}
"""Names of the jars, and where their projects are."""
PIPELINE: Final = "samerack-pipeline"
IMAGES: Final = {"samerack": "the agent's image", PIPELINE: "the pipeline's image"}
"""Repositories of the images, and the note on each."""
SUMS: Final = "SHA256SUMS"
NOTES: Final = "RELEASE-NOTES.md"
_KINDS_OF_JAR: Final = ("", "-sources", "-javadoc")
_LIST: Final = """
import json
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile
def described(jar):
    with ZipFile(jar) as opened:
        return [opened.read(one).decode() for one in opened.namelist() if one.endswith("/pom.properties")]
print(json.dumps({
    "python": [[one.name, one.version, one.metadata.get("License-Expression") or ""] for one in distributions()],
    "system": [one.read_text(encoding="utf-8") for one in sorted(Path("/var/lib/dpkg/status.d").iterdir())],
    "os": Path("/etc/os-release").read_text(encoding="utf-8"),
    "java": [[jar.name, described(jar)] for jar in sorted(Path("/opt/samerack").rglob("*.jar"))],
}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What the builders have made."""

    source: Path  # the copy that they were called in
    python: Path  # the folder of wheel and source distribution
    jars: Path  # the folder of the jars, without versions in their names
    chart: Path
    images: Path  # the folder of what `docker save` wrote
    platform: str  # such as linux-amd64


def pack(built: Built, target: Path, *, version: str, source: Source) -> None:
    """Write all files of a release into a folder.

    Raises:
        ReleaseError: Something was not built, or is not what it should be.
    """
    target.mkdir(parents=True, exist_ok=True)
    (wheel,), (sdist,) = built.python.glob("*.whl"), built.python.glob("*.tar.gz")
    needed = sbom.locked(built.source / "scripts" / "locks" / "install.lock")
    for file in (wheel, sdist):
        copyfile(file, target / file.name)
        _bill(target / file.name, version=version, epoch=source.epoch, needs=needed)
    for name, project in JARS.items():
        for kind in _KINDS_OF_JAR:
            jar = target / f"{name}-{version}{kind}.jar"
            copyfile(built.jars / f"{name}{kind}.jar", jar)
            if not kind:
                _bill(jar, version=version, epoch=source.epoch, needs=sbom.provided(built.source / project / "pom.xml"))
    chart = target / f"samerack-{version}.tgz"
    repack.chart(built.chart, chart, epoch=source.epoch)
    images = [
        Component(name=name, version=version, address=f"pkg:oci/{name}@{version}", note=note)
        for name, note in IMAGES.items()
    ]
    _bill(chart, version=version, epoch=source.epoch, needs=images)
    for name in IMAGES:
        archive = target / f"{name}-{version}-image-{built.platform}.tar"
        repack.image(built.images / f"{name}.tar", archive, name=f"{name}:{version}", epoch=source.epoch)
        _bill(archive, version=version, epoch=source.epoch, contains=_inside(f"{name}:{version}"))
    (target / NOTES).write_text(
        f"# samerack {version}\n\nOf commit {source.commit}.\n\n{source.notes}\n", encoding="utf-8"
    )
    write_sums(target)


def write_sums(folder: Path) -> None:
    """Write the checksums of all files, as `sha256sum --check` reads them."""
    lines = []
    for file in sorted(folder.iterdir()):
        if file.name == SUMS:
            continue
        with file.open("rb") as opened:
            lines.append(f"{hashlib.file_digest(opened, 'sha256').hexdigest()}  {file.name}\n")
    (folder / SUMS).write_text("".join(lines), encoding="utf-8")


def _bill(
    artefact: Path, *, version: str, epoch: int, needs: Iterable[Component] = (), contains: Iterable[Component] = ()
) -> None:
    target = artefact.with_name(f"{artefact.name}.spdx.json")
    sbom.write(artefact, target, version=version, epoch=epoch, needs=needs, contains=contains)


def _inside(image: str) -> list[Component]:
    """Return the packages that the image itself finds in it."""
    run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "/opt/samerack/bin/python"]
    line = [*run, image, "-c", _LIST]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{image}: what is in it cannot be listed: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    system = _field(found["os"], "ID", "=")
    return [
        *(
            Component(name=name, version=version, address=f"pkg:pypi/{name.lower()}@{version}", licence=licence)
            for name, version, licence in found["python"]
        ),
        *(
            Component(name=name, version=version, address=f"pkg:deb/{system}/{name}@{version}")
            for name, version in ((_field(one, "Package"), _field(one, "Version")) for one in found["system"])
        ),
        *(one for jar, described in found["java"] for one in sbom.bundled(jar, described)),
    ]


def _field(text: str, name: str, separator: str = ": ") -> str:
    for line in text.splitlines():
        key, _, value = line.partition(separator)
        if key == name:
            return value.strip('"')
    raise ReleaseError(f"no {name} in {text[:100]!r}")
