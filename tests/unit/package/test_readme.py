"""README and Start are short, begin with the same commands, and name tested versions; CONTRIBUTING names real files."""

from __future__ import annotations

import re
from typing import Final

from lab.sandbox.jvm import KAFKA_VERSION
from samerack.cluster.versions import TESTED
from tests.docs import ROOT, blocks
from tests.helm.chart import KUBERNETES

_README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
_START: Final = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")


def _section(page: str, heading: str) -> str:
    return page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_both_are_short() -> None:
    """The README is one screen with a picture and at most eight links; both have at most 2,500 words."""
    assert len((_README + _START).split()) <= 2500
    assert len(_README.splitlines()) <= 65
    assert len(re.findall(r"\]\(", _README)) <= 8
    (picture,) = re.findall(r'<img src="([^"]+)"', _README)
    assert (ROOT / picture).is_file()


def test_an_environment_comes_before_the_first_command() -> None:
    """Debian refuses to install beside its own packages; both pages have the same lines, and then `verify`."""
    readme, start = (re.findall(r"^ {4}(.*)$", _section(page, "Install"), re.MULTILINE) for page in (_README, _START))
    assert readme == start
    assert readme[0].startswith("python3 -m venv ")
    for page in ("README.md", "start.md"):
        first = next(command for command in blocks() if command.page == page)
        assert first.words[:2] == ("samerack", "verify")


def test_the_versions_are_those_of_the_tests() -> None:
    """Brokers are those that can be set up here, Kubernetes' those whose schemas hold the chart's manifests."""
    text = _section(_README, "Tested with")
    others = {path.name for path in (ROOT / "lab" / "sandbox" / "kafka").iterdir() if path.is_dir()}
    assert set(re.findall(r"\b\d+\.\d+\.\d+\b", text)) == {KAFKA_VERSION, *others}
    kafka, kubernetes = text.split("Kubernetes")
    assert set(re.findall(r"\b\d+\.\d+\b", kubernetes)) == set(KUBERNETES)
    led = re.findall(r"\d+\.\d+\.\d+", kafka.partition("KIP-848")[0])
    assert [version.rpartition(".")[0] for version in led] == list(TESTED)


def test_the_files_that_contributing_names_are_there() -> None:
    """A walk through the code names the files in order, those of one folder by their names."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").replace("NAME.py", "plan.py")
    folders = ("agent", "assignors", "lab", "protocol", "src", "tests")
    known = {f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.py")}
    assert [
        name for name in re.findall(r"`([\w/]+\.py)`", text) if not any(one.endswith(f"/{name}") for one in known)
    ] == []
