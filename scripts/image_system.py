"""Copies what Python and the agent's packages need of the system that they stand in: the image's file system begins so.

That is the interpreter, its library, every shared object that any of them names, certificates and time zones, and of
each Debian package that a file belongs to its licence and its record, which scanners of images read. No shell goes
along, no package manager and no other program. The Dockerfile runs it with the base's own Python. With names of
programs it copies these instead, and all of Java: what the pipeline's image has in addition.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

_LINKS: Final = ("lib", "lib64")
"""Folders of the root that are links in most systems, and that shared objects are named by."""
_NOT_OF_THE_LIBRARY: Final = shutil.ignore_patterns(
    *("__pycache__", "site-packages", "dist-packages", "config-*"),
    *("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tests", "tkinter", "turtledemo", "turtle.py"),
    *("curses", "_curses*", "_dbm*", "_gdbm*", "_test*", "_tkinter*", "_ctypes_test*", "readline*", "xxlimited*"),
)
"""What no server imports: installers, editors, tests, windows, and terminals' libraries."""
_LOADED_BY_NAME: Final = ("libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2")
"""Shared objects that glibc opens when it needs them, so that no other names them."""
_TREES: Final = (
    "etc/ssl",
    "etc/ld.so.conf",
    "etc/ld.so.conf.d",
    "usr/lib/ssl",
    "usr/share/ca-certificates",
    "usr/share/zoneinfo",
)
_NOT_OF_THE_TREES: Final = shutil.ignore_patterns("private", "posix", "right", "misc")
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/:/nonexistent\nsamerack:x:65532:65532:samerack:/:/nonexistent\n",
    "etc/group": "root:x:0:\nsamerack:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
_RESOLVED: Final = re.compile(r"^\t(?:(\S+) => )?(/\S+|not found)", re.MULTILINE)


def main(root: Path, packages: Path, programs: Sequence[str]) -> None:
    """Fill the folder.

    Args:
        root: the folder; made.
        packages: where the image's packages stand, at the place that they have in it.
        programs: what the pipeline's image needs beside Python; without them, all that Python needs.
    """
    root.mkdir()
    for name in _LINKS:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    if programs:
        _take_programs(programs, root, packages)
    else:
        _take_python(root, packages)


def _take_programs(programs: Sequence[str], root: Path, packages: Path) -> None:
    places = [Path(str(shutil.which(name))) for name in programs]
    for place in places:
        _take(place, root)
    homes = [place.resolve().parents[1] for place in places if place.name == "java"]
    for tree in (*homes, *Path("/etc").glob("java-*"), Path("/etc/ssl")):
        _take_tree(tree, root)
    for shared in _shared_objects([*(place.resolve() for place in places), *homes, packages]):
        _take(shared, root)
    _take_records(root)


def _take_python(root: Path, packages: Path) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    _take(Path(sys.executable), root)
    shutil.copytree(library, root / library.relative_to("/"), symlinks=True, ignore=_NOT_OF_THE_LIBRARY)
    for path in _files(root / library.relative_to("/")):
        if not path.is_symlink():
            path.chmod(0o644)  # some of it is meant to be run as a program, too
    for tree in _TREES:
        _take_tree(Path("/", tree), root)
    for shared in _shared_objects([Path(sys.executable).resolve(), root / library.relative_to("/"), packages]):
        _take(shared, root)
    for name, text in _FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    _take(Path("/etc/os-release"), root)
    (root / "tmp").mkdir(mode=0o777)
    (root / "tmp").chmod(0o1777)
    _take_records(root)
    compileall.compile_dir(
        root / library.relative_to("/"),
        quiet=1,
        stripdir=str(root),
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
    )
    subprocess.run(["/sbin/ldconfig", "-X", "-r", str(root)], check=True)  # noqa: S603 - the base's own


def _take(path: Path, root: Path) -> None:
    """Copy a file, and the links that lead to it."""
    real = path.parent.resolve() / path.name
    place = root / real.relative_to("/")
    if place.is_symlink() or place.exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(real, place, follow_symlinks=False)
    if real.is_symlink():
        _take(real.parent / real.readlink(), root)


def _take_tree(path: Path, root: Path) -> None:
    if path.is_dir():
        place = root / path.relative_to("/")
        shutil.copytree(path, place, symlinks=True, ignore=_NOT_OF_THE_TREES, dirs_exist_ok=True)
    elif path.exists():
        _take(path, root)


def _shared_objects(places: Iterable[Path]) -> list[Path]:
    """Shared objects of the system that files below the places name, and those that nobody names.

    Raises:
        SystemExit: One of them is not found.
    """
    files = [path for place in places for path in _files(place) if _is_elf(path)]
    output = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607
    own = {path.name for path in files}  # wheels bring some of their own, which find each other once they are loaded
    found, missing = set[Path](), set[str]()
    for name, place in _RESOLVED.findall(output):
        if place != "not found":
            found.add(Path(place))
        elif name not in own:
            missing.add(name)
    if missing:
        raise SystemExit(f"shared objects not found: {', '.join(sorted(missing))}; add their packages to the base")
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    for name in _LOADED_BY_NAME:
        found.update(Path(place) for place in re.findall(rf"^\t{re.escape(name)} .* => (\S+)$", known, re.MULTILINE))
    return sorted(path for path in found if not any(path.is_relative_to(place) for place in places))


def _files(place: Path) -> Iterator[Path]:
    if place.is_file():
        yield place
    for top, _, names in os.walk(place):
        yield from (Path(top, name) for name in names)


def _is_elf(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _take_records(root: Path) -> None:
    """Licences and records of the packages whose files were copied, as images without a package manager have them."""
    places = [f"/{path.relative_to(root)}" for path in _files(root)]
    places += [place.removeprefix("/usr") for place in places if place.startswith("/usr/lib")]  # as older packages say
    output = subprocess.run(["dpkg-query", "-S", *places], capture_output=True, text=True, check=False).stdout  # noqa: S603, S607
    names = {name.split(":")[0] for line in output.splitlines() for name in line.partition(": ")[0].split(", ")}
    records = root / "var/lib/dpkg/status.d"
    records.mkdir(parents=True)
    for name in sorted(names):
        shown = subprocess.run(["dpkg-query", "-s", name], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
        (records / name).write_text(shown, encoding="utf-8")
        licence = Path("/usr/share/doc", name, "copyright")
        if licence.exists():
            _take(licence, root)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
