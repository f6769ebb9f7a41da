"""Packs what other programs have packed once more, so that the same content gives the same bytes.

Helm and Docker write the time of packing, and Docker the names of intermediate containers.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import IO, Any, Final

from lab.release.errors import ReleaseError

_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_OF_IMAGES: Final = (
    "User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels", "StopSignal", "Healthcheck",
)  # fmt: skip
"""What of a configuration says how to run the image; the rest is about the machine that built it."""
_OWN_LABELS: Final = "org.opencontainers."
_CHUNK: Final = 1 << 20


def chart(packed: Path, target: Path, *, epoch: int) -> None:
    """Write a packed chart again: entries by name, of this time, owned by nobody in particular."""
    with (
        tarfile.open(packed) as source,
        target.open("wb") as out,
        _gzip(out) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as files,
    ):
        for entry in sorted(source.getmembers(), key=lambda one: one.name):
            files.addfile(_plain(entry.name, entry.size, epoch), source.extractfile(entry))


def image(saved: Path, target: Path, *, name: str, epoch: int) -> None:
    """Write an image that `docker save` wrote as an OCI image layout, which `docker load` reads as well.

    It gets this name and tag, and this time in seconds since 1970.

    Raises:
        ReleaseError: The archive is not of one image.
    """
    with tarfile.open(saved) as source, tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as files:
        described = json.load(_file(source, "manifest.json"))
        if len(described) != 1:
            raise ReleaseError(f"{saved}: {len(described)} images instead of one")
        configuration = _configuration(json.load(_file(source, described[0]["Config"])), epoch)
        layers = [_add_layer(files, _file(source, path), epoch) for path in described[0]["Layers"]]
        config = _add(files, _json(configuration), epoch)
        manifest = _add(
            files,
            _json(
                {
                    "schemaVersion": 2,
                    "mediaType": _MANIFEST,
                    "config": {"mediaType": _CONFIG, **config},
                    "layers": [{"mediaType": _LAYER, **layer} for layer in layers],
                }
            ),
            epoch,
        )
        platform = {key: configuration[key] for key in ("architecture", "os", "variant") if key in configuration}
        tag = name.rpartition(":")[2]
        named = {"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": name}
        index = {"mediaType": _MANIFEST, **manifest, "platform": platform, "annotations": named}
        _add_named(files, "index.json", _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [index]}), epoch)
        _add_named(files, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}), epoch)
        for_docker = {
            "Config": _blob(config["digest"]),
            "RepoTags": [name],
            "Layers": [_blob(layer["digest"]) for layer in layers],
        }
        _add_named(files, "manifest.json", _json([for_docker]), epoch)


def _configuration(built: Mapping[str, Any], epoch: int) -> dict[str, Any]:
    created = datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run = {key: value for key, value in (built.get("config") or {}).items() if key in _OF_IMAGES and value is not None}
    labels = {key: value for key, value in (run.get("Labels") or {}).items() if key.startswith(_OWN_LABELS)}
    history = [
        {"created": created, "created_by": one["created_by"], "empty_layer": one.get("empty_layer", False)}
        for one in built.get("history", ())
    ]
    kept = {key: built[key] for key in ("architecture", "os", "variant", "rootfs") if key in built}
    return {**kept, "created": created, "config": {**run, "Labels": labels}, "history": history}


def _add_layer(files: tarfile.TarFile, layer: IO[bytes], epoch: int) -> dict[str, Any]:
    with TemporaryFile() as packed:
        with _gzip(packed) as zipped:
            copyfileobj(layer, zipped, _CHUNK)
        size = packed.tell()
        packed.seek(0)
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
        packed.seek(0)
        files.addfile(_plain(_blob(f"sha256:{digest}"), size, epoch), packed)
    return {"digest": f"sha256:{digest}", "size": size}


def _add(files: tarfile.TarFile, content: bytes, epoch: int) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    _add_named(files, _blob(digest), content, epoch)
    return {"digest": digest, "size": len(content)}


def _add_named(files: tarfile.TarFile, name: str, content: bytes, epoch: int) -> None:
    files.addfile(_plain(name, len(content), epoch), BytesIO(content))


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _plain(name: str, size: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, epoch, 0o644
    return entry


def _file(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    found = archive.extractfile(archive.getmember(name))
    if found is None:
        raise ReleaseError(f"{name}: not a file in the image's archive")
    return found


def _gzip(out: IO[bytes]) -> gzip.GzipFile:
    return gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
