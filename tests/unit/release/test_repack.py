"""Charts and images packed again: the same content gives the same bytes, whoever packed it and when."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from release import repack
from release.errors import ReleaseError

EPOCH = 1_700_000_000


def archive(path: Path, files: Mapping[str, bytes], *, mtime: int, mode: str = "w") -> Path:
    """Writes an archive as a program does that does not care for the time."""
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]  # any mode
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.uid, entry.uname = len(content), mtime, mtime % 1000, "somebody"
            out.addfile(entry, BytesIO(content))
    return path


def saved(path: Path, *, mtime: int, images: int = 1) -> Path:
    """An image as `docker save` writes it, with the time and the containers of its build."""
    layer = archive(path.with_suffix(".layer"), {"opt/samerack/x": b"x"}, mtime=EPOCH).read_bytes()
    config = {
        "architecture": "amd64", "os": "linux", "created": f"{mtime}", "container": f"c{mtime}", "docker_version": "20",
        "config": {
            "Hostname": f"h{mtime}", "Image": f"sha256:{mtime}", "Cmd": ["run"], "User": "1000",
            "Labels": {"org.opencontainers.image.title": "samerack", "build.machine": f"m{mtime}"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [
            {"created": f"{mtime}", "created_by": "COPY"},
            {"created": f"{mtime}", "created_by": "CMD", "empty_layer": True},
        ],
    }  # fmt: skip
    described = [{"Config": "c.json", "RepoTags": ["samerack:0.2.0"], "Layers": ["1/layer.tar"]}] * images
    files = {
        "manifest.json": json.dumps(described).encode(),
        "c.json": json.dumps(config).encode(),
        "1/layer.tar": layer,
    }
    return archive(path, files, mtime=mtime)


def read(path: Path) -> dict[str, bytes]:
    """All files of an archive."""
    with tarfile.open(path) as source:
        return {one.name: source.extractfile(one).read() for one in source}  # type: ignore[union-attr]  # only files


def test_a_chart_has_the_same_bytes_whenever_it_was_packed(tmp_path: Path) -> None:
    """Helm writes the present time, and files in the order of the disk."""
    files = {"samerack/Chart.yaml": b"name: samerack", "samerack/values.yaml": b"{}"}
    one = archive(tmp_path / "1.tgz", files, mtime=1, mode="w:gz")
    two = archive(tmp_path / "2.tgz", dict(reversed(files.items())), mtime=2, mode="w:gz")
    repack.chart(one, tmp_path / "a.tgz", epoch=EPOCH)
    repack.chart(two, tmp_path / "b.tgz", epoch=EPOCH)
    assert (tmp_path / "a.tgz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    assert read(tmp_path / "a.tgz") == files
    with tarfile.open(tmp_path / "a.tgz") as chart:
        assert {(entry.mtime, entry.uid, entry.uname) for entry in chart} == {(EPOCH, 0, "")}


def test_an_image_has_the_same_bytes_wherever_it_was_built(tmp_path: Path) -> None:
    """Docker writes names of containers and the time."""
    for number, name in ((1, "a"), (2, "b")):
        repack.image(
            saved(tmp_path / f"{number}.tar", mtime=number), tmp_path / name, name="samerack:0.2.0", epoch=EPOCH
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_image_is_an_oci_layout_that_docker_loads_too(tmp_path: Path) -> None:
    """Each digest is the one of the bytes it names."""
    repack.image(saved(tmp_path / "1.tar", mtime=1), tmp_path / "image.tar", name="samerack:0.2.0", epoch=EPOCH)
    files = read(tmp_path / "image.tar")
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["platform"] == {"architecture": "amd64", "os": "linux"}
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "0.2.0"

    def blob(described: Mapping[str, Any]) -> bytes:
        content = files["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
        assert (len(content), hashlib.sha256(content).hexdigest()) == (
            described["size"], described["digest"].removeprefix("sha256:"),
        )  # fmt: skip
        return content

    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    assert config["config"] == {
        "Cmd": ["run"],
        "User": "1000",
        "Labels": {"org.opencontainers.image.title": "samerack"},
    }
    assert config["created"] == "2023-11-14T22:13:20Z"
    (layer,) = manifest["layers"]
    blob(layer)
    (docker,) = json.loads(files["manifest.json"])
    assert (docker["RepoTags"], [name in files for name in (docker["Config"], *docker["Layers"])]) == (
        ["samerack:0.2.0"], [True, True],
    )  # fmt: skip


def test_an_archive_of_two_images_is_refused(tmp_path: Path) -> None:
    """Which one would it be?"""
    with pytest.raises(ReleaseError, match="2 images instead of one"):
        repack.image(saved(tmp_path / "1.tar", mtime=1, images=2), tmp_path / "out", name="samerack:0.2.0", epoch=EPOCH)
