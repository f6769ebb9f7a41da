"""The sources of a release: a copy of a commit with the version in it, after it has been checked that it may be one."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.release.errors import WrongInputError

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
"""What Python's packages and Helm's charts both take."""
_NAMED: Final = re.compile(r'^version = "[^"]*"$', re.MULTILINE)
_UNRELEASED: Final = "Unreleased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the sources of a release come from."""

    commit: str  # the full hash
    epoch: int  # the commit's time, in seconds since 1970: the time of everything in the artefacts
    notes: str  # the changelog's entries of this version, in Markdown
    warnings: tuple[str, ...]  # what would stop the release if it were not a trial


def checked(root: Path, version: str, *, trial: bool) -> Source:
    """Return the source of a release of the current commit of a checkout.

    In a trial, which publishes nothing, a tag, a section of the changelog and a clean checkout may be missing.

    Raises:
        WrongInputError: The version is none, or the commit is not the one to release.
    """
    if not _VERSION.fullmatch(version):
        raise WrongInputError(f"{version}: no version; it is MAJOR.MINOR.PATCH, such as 0.2.0")
    commit = _git(root, "rev-parse", "HEAD")
    missing = []
    if _git(root, "status", "--porcelain"):
        missing.append("the checkout has changes that are in no commit, so they are not released; commit them")
    if f"v{version}" not in _git(root, "tag", "--points-at", "HEAD").split():
        missing.append(f"the commit has no tag v{version}; git tag --sign v{version}")
    changelog = _git(root, "show", f"{commit}:CHANGELOG.md")
    notes = section(changelog, version)
    if not notes:
        missing.append(f"CHANGELOG.md has no section `## {version}`; rename `## {_UNRELEASED}`")
        notes = section(changelog, _UNRELEASED)
    if missing and not trial:
        raise WrongInputError("; ".join(missing) + "; or try it with --dry-run")
    epoch = int(_git(root, "log", "-1", "--format=%ct", commit))
    return Source(commit=commit, epoch=epoch, notes=notes, warnings=tuple(missing))


def section(changelog: str, name: str) -> str:
    """Return the text below a heading of the second level; empty if there is none."""
    _, _, after = f"\n{changelog}".partition(f"\n## {name}\n")
    return after.partition("\n## ")[0].strip()


def copy(root: Path, commit: str, version: str, target: Path) -> None:
    """Write the files of a commit into a folder, with this version.

    Raises:
        WrongInputError: The folder has something in it.
    """
    if target.exists() and any(target.iterdir()):
        raise WrongInputError(f"{target}: not empty; remove it")
    target.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", str(root), "archive", commit], capture_output=True, check=True).stdout
    subprocess.run(["tar", "--extract", "--directory", str(target)], input=archive, check=True)
    project = target / "pyproject.toml"
    text, count = _NAMED.subn(f'version = "{version}"', project.read_text(encoding="utf-8"))
    if count != 1:
        raise WrongInputError(f"{project.name}: {count} lines `version = ...` instead of one")
    project.write_text(text, encoding="utf-8")


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise WrongInputError("git is missing. Install it: apt-get install git") from error
    except subprocess.CalledProcessError as error:
        raise WrongInputError(f"git {words[0]}: {error.stderr.strip()}; a release is made in a clone") from error
    return done.stdout.strip()
