"""The parts of `scripts/release`: `copy` before the builders run, `pack` and `prove` after them."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from lab.release.errors import ReleaseError, WrongInputError
from lab.release.pack import Built, pack
from lab.release.prove import Tools, prove
from lab.release.source import Source, checked, copy

ROOT: Final = Path(__file__).parents[2]
_SOURCE: Final = "source.json"
"""What was copied, beside the copy: the commit may not be the current one any more when all is built."""
app = typer.Typer(add_completion=False, help=__doc__)

Version = Annotated[str, typer.Argument(help="MAJOR.MINOR.PATCH")]
Trial = Annotated[bool, typer.Option("--dry-run", help="Neither tag nor section of the changelog need be there.")]


@app.command("copy")
def copy_sources(version: Version, target: Path, dry_run: Trial = False) -> None:  # noqa: FBT002 - an option
    """Check that the current commit may be released and copies it for the builders; print its time and hash."""
    source = checked(ROOT, version, trial=dry_run)
    for warning in source.warnings:
        _report(f"in a release this would be refused: {warning}")
    copy(ROOT, source.commit, version, target / "source")
    (target / _SOURCE).write_text(json.dumps(asdict(source)), encoding="utf-8")
    print(source.epoch, source.commit)  # noqa: T201 - read by scripts/release


@app.command("pack")
def pack_all(version: Version, work: Path, target: Path, platform: str) -> None:
    """Pack what lies in the folder of the builders into the release's folder."""
    source = Source(**json.loads((work / _SOURCE).read_text(encoding="utf-8")))
    (chart,) = work.glob("chart/*.tgz")
    built = Built(
        source=work / "source",
        python=work / "python",
        jars=work / "jars",
        chart=chart,
        images=work,
        platform=platform,
    )
    pack(built, target, version=version, source=source)


@app.command("prove")
def prove_all(version: Version, target: Path, uv: str, python: str, java: str, beside: Path) -> None:
    """Install every artefact and run it."""
    tools = Tools(uv=uv, python=python, java=java, beside=beside, build_python=sys.executable)
    for line in prove(target.resolve(), version, tools):
        _report(f"proved: {line}")


def _report(text: str) -> None:
    print(f"samerack: {text}", file=sys.stderr)  # noqa: T201 - progress


if __name__ == "__main__":
    try:
        app()
    except WrongInputError as wrong:
        _report(str(wrong))
        sys.exit(2)
    except ReleaseError as failed:
        _report(str(failed))
        sys.exit(1)
