"""The workflow that releases a tag: nothing can run it here, so what can be known without is held."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"


def steps() -> list[dict[str, Any]]:
    """All steps of all jobs."""
    jobs = yaml.safe_load(WORKFLOW.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_it_makes_the_release_as_everybody_does() -> None:
    """The version is the tag's; no dry run."""
    (made,) = [step["run"] for step in steps() if "scripts/release" in step.get("run", "")]
    assert made == 'scripts/release "${GITHUB_REF_NAME#v}" --to made'


def test_every_script_in_it_is_valid_shell() -> None:
    """As bash reads it, which runs the steps."""
    scripts = [step["run"] for step in steps() if "run" in step]
    assert len(scripts) > 5
    for script in scripts:
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_no_registry_is_named() -> None:
    """Whoever forks the project publishes to places of their own."""
    published = [step for step in steps() if "if" in step]
    assert {step["if"] for step in published} == {
        "env.IMAGES != '' || env.CHARTS != ''",
        "env.IMAGES != ''",
        "env.CHARTS != ''",
        "env.PYTHON_INDEX != ''",
    }
    text = WORKFLOW.read_text()
    assert not [name for name in ("ghcr.io", "docker.io", "quay.io", "pypi.org") if name in text]
