"""Which commit may be released, and what is copied of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from release.errors import WrongInputError
from release.source import checked, copy, section

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- Next.\n\n## 0.2.0\n\n- This.\n\n## 0.1.0\n\n- Before.\n"


def git(root: Path, *words: str) -> str:
    """Runs git without the settings of this machine's user."""
    environment = {
        "PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_COMMITTER_DATE": "1700000000 +0000", "GIT_AUTHOR_DATE": "1700000000 +0000",
    }  # fmt: skip
    line = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@t", *words]
    return subprocess.run(line, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit, tagged v0.2.0."""
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "CHANGELOG.md").write_text(CHANGELOG)
    (checkout / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "0.1.0"\n')
    git(checkout, "init", "--quiet")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "first")
    git(checkout, "tag", "v0.2.0")
    return checkout


def test_a_tagged_commit_with_a_section_is_released(root: Path) -> None:
    """Time and notes are those of the commit and of its changelog."""
    source = checked(root, "0.2.0", trial=False)
    assert (source.epoch, source.notes, source.warnings) == (1_700_000_000, "- This.", ())
    assert source.commit == git(root, "rev-parse", "HEAD")


@pytest.mark.parametrize("version", ["", "v0.2.0", "0.2", "0.2.0rc1", "0.02.0", "0.2.0 "])
def test_what_is_no_version_is_refused(root: Path, version: str) -> None:
    """Charts and Python packages must both be able to have it."""
    with pytest.raises(WrongInputError, match=r"MAJOR\.MINOR\.PATCH"):
        checked(root, version, trial=True)


def test_all_that_is_missing_is_told_at_once(root: Path) -> None:
    """A tag, a section and a clean checkout: what is not in the commit is not released."""
    (root / "new").touch()
    with pytest.raises(WrongInputError) as error:
        checked(root, "0.3.0", trial=False)
    said = str(error.value)
    assert all(word in said for word in ("in no commit", "git tag --sign v0.3.0", "## 0.3.0", "--dry-run"))


def test_a_trial_goes_on_with_what_is_unreleased(root: Path) -> None:
    """It warns of what would stop a release."""
    source = checked(root, "0.3.0", trial=True)
    assert (source.notes, len(source.warnings)) == ("- Next.", 2)


def test_a_folder_without_git_is_told(tmp_path: Path) -> None:
    """A source distribution has no history."""
    with pytest.raises(WrongInputError, match="a release is made in a clone"):
        checked(tmp_path, "0.2.0", trial=True)


def test_only_the_commit_is_copied_with_the_version(root: Path, tmp_path: Path) -> None:
    """What lies about in the checkout is not in the release."""
    (root / "private").touch()
    (root / "CHANGELOG.md").write_text("changed")
    target = tmp_path / "copy"
    copy(root, "HEAD", "0.2.0", target)
    assert sorted(one.name for one in target.iterdir()) == ["CHANGELOG.md", "pyproject.toml"]
    assert (target / "CHANGELOG.md").read_text() == CHANGELOG
    assert (target / "pyproject.toml").read_text() == '[project]\nname = "p"\nversion = "0.2.0"\n'
    with pytest.raises(WrongInputError, match="not empty"):
        copy(root, "HEAD", "0.2.0", target)


@pytest.mark.parametrize(("name", "text"), [("0.1.0", "- Before."), ("0.2.0", "- This."), ("0.2", ""), ("0.20", "")])
def test_sections(name: str, text: str) -> None:
    """By the whole heading."""
    assert section(CHANGELOG, name) == text
