"""Spark's jars: the locked list, and the errors for missing jars."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from samerack.common.errors import SettingsError
from samerack.pipeline import jars


def test_the_lock_has_the_jars_that_maven_is_asked_for() -> None:
    """Exactly the dependencies of pom.xml are locked, in their versions."""
    pom = Path(jars.__file__).with_name("pom.xml").read_text()
    versions = dict(re.findall(r"<([\w.-]+\.version)>([^<]+)</", pom))
    wanted = re.findall(r"<artifactId>([^<*]+)</artifactId>\s*<version>\$\{([^}]+)\}", pom)
    assert sorted(f"{artifact}-{versions[version]}.jar" for artifact, version in wanted) == sorted(jars.names())


def test_a_folder_that_lacks_jars_is_reported_with_the_cures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For an empty cache and for a named folder, the error says what is missing and what to do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(SettingsError, match=r"11 of the 11 jars .* scripts/setup --pipeline.*spark\.jars\.packages"):
        jars.find(())
    with pytest.raises(SettingsError, match="other"):
        jars.find([str(tmp_path / "other")])
    with pytest.raises(SettingsError, match=r"gone\.jar: no such file"):
        jars.find([str(tmp_path / "gone.jar")])


def test_an_image_has_the_jars_beside_their_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the package's own folder has them, neither a cache nor a setting is needed."""
    monkeypatch.setattr(jars, "__file__", str(tmp_path / "__init__.py"))
    for name in jars.names():
        (tmp_path / name).touch()
    assert jars.find(()) == tuple(str(tmp_path / name) for name in jars.names())


def test_jars_are_taken_from_a_folder_or_by_name(tmp_path: Path) -> None:
    """Of a folder only the locked jars are used; files and addresses are used as given."""
    for name in (*jars.names(), "another.jar"):
        (tmp_path / name).touch()
    assert jars.find([str(tmp_path)]) == tuple(str(tmp_path / name) for name in jars.names())
    named = (str(tmp_path / "another.jar"), "s3a://bucket/far.jar")
    assert jars.find(named) == named
