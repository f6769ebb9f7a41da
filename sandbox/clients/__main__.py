"""`scripts/clients`: tests which scenarios work with which client, and how groups start while an agent waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markdown import Markdown

from sandbox.admin import Admin
from sandbox.clients.births import NAMES, run_births
from sandbox.clients.course import CourseOfGroup
from sandbox.clients.model import CLIENTS, Course, Document, Variant, as_json, from_json, merged, variants
from sandbox.clients.page import render
from sandbox.cluster import Cluster
from sandbox.demo import Story, told
from sandbox.errors import SandboxError
from sandbox.evidence import complain, evidence, log_console

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "clients.json"
_LOG_COLUMNS: Final = 200
MANY: Final = 30
MANY_CLIENTS: Final = ("java", "confluent")
_DEFAULT_DELAY: Final = {"group.initial.rebalance.delay.ms": "3000"}
"""Kafka's own default."""


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(CLIENTS),
    parts: Annotated[str, typer.Option(help="courses, births and births-30, separated by commas.")] = (
        "courses,births,births-30"
    ),
    tries: Annotated[int, typer.Option(min=1, help="Groups that begin, for each client and assignor.")] = 20,
    at_once: Annotated[int, typer.Option(min=1, help="Groups at a time; each has one beside it without an agent.")] = 4,
    bootstrap: Annotated[str, typer.Option(help="Brokers 1 to 3 in racks a to c; starts some without it.")] = "",
    defaults: Annotated[bool, typer.Option(help="Only the assignor that each client has by default.")] = False,
    write: Annotated[bool, typer.Option(help="Write the document and the page beside it.")] = False,
    document_path: Annotated[Path, typer.Option("--document", help="The document to write.")] = DOCUMENT,
    keep: Annotated[bool, typer.Option(help="Keep histories and logs also when nothing is wrong.")] = False,
) -> None:
    """Play every scenario with groups of every client, and hold that nothing is lost; exit code 1 if anything was.

    What is written replaces what the document knew of the same clients, and leaves the rest as it is.
    """
    chosen = clients.split(",")
    if unknown := set(chosen) - set(CLIENTS):
        raise typer.BadParameter(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    console = log_console(_LOG_COLUMNS)
    failures: list[str] = []

    def play(story: Story) -> dict[str, Any]:
        document = Document()
        with evidence(story, "samerack-clients-", keep=keep) as kept:
            with _brokers(story, bootstrap) as address, Admin(address) as admin:
                run = Run(story, bootstrap=address, admin=admin, folder=kept.folder, at_once=at_once)
                found = [one for one in variants(chosen) if not (defaults and one.assignor)]
                for part in run.parts(parts.split(","), found, tries):
                    document = merged(document, part)
                    if write:
                        _write(part, document_path)
            failures.extend(run.failures)
            kept.keep |= bool(document.complaints or failures)
        return {"document": document}

    document: Document = told(console, play)["document"]
    console.print(Markdown(render(document)))
    complain(console, [*failures, *document.complaints])
    if failures or document.complaints:
        raise typer.Exit(1)


@contextmanager
def _brokers(story: Story, bootstrap: str) -> Iterator[str]:
    """Yields the address of the brokers: the given ones, or three new ones that stop with the context."""
    if bootstrap:
        yield bootstrap
        return
    story.tell("starting three brokers, one in each rack")
    with Cluster(properties=_DEFAULT_DELAY) as cluster:
        yield cluster.bootstrap


class Run:
    """Runs the parts on one cluster; a failure is reported and recorded, and the rest continues."""

    def __init__(self, story: Story, *, bootstrap: str, admin: Admin, folder: Path, at_once: int) -> None:
        self.failures: list[str] = []
        self._story = story
        self._bootstrap = bootstrap
        self._admin = admin
        self._folder = folder
        self._at_once = at_once

    def parts(self, names: Sequence[str], found: Sequence[Variant], tries: int) -> Iterator[Document]:
        """Run the parts, and yield the result of each group or client."""
        if "births" in names:
            yield from self._births(found, members=len(NAMES), tries=tries)
        if "births-30" in names:
            many = [one for one in found if one.client in MANY_CLIENTS and not one.assignor]
            yield from self._births(many, members=MANY, tries=tries)
        if "courses" in names:
            with ThreadPoolExecutor(self._at_once) as pool:
                for course in pool.map(self._course, found):
                    if course is not None:
                        yield Document(courses=(course,))

    def _births(self, found: Sequence[Variant], *, members: int, tries: int) -> Iterator[Document]:
        for variant in found:
            try:
                row = run_births(
                    variant,
                    members=members,
                    tries=tries,
                    at_once=max(1, min(self._at_once, MANY // members)),
                    bootstrap=self._bootstrap,
                    admin=self._admin,
                    folder=self._folder / f"births-{members}-{variant.name}",
                )
            except SandboxError as error:
                self._failed(f"{variant.name}, {members} members from birth: {error}")
                continue
            self._story.tell(
                f"{variant.name}, {members} members from birth: led {row.led} of {row.tries} in "
                f"{row.with_seconds:.1f} s, without the agent {row.without_seconds:.1f} s, later "
                f"{row.late_seconds:.1f} s at most, {len(row.findings)} findings"
            )
            yield Document(births=(row,))

    def _course(self, variant: Variant) -> Course | None:
        folder = self._folder / f"course-{variant.name}"
        folder.mkdir()
        try:
            course = CourseOfGroup(variant, bootstrap=self._bootstrap, admin=self._admin, folder=folder)
            return course.run(self._story.tell)
        except SandboxError as error:
            self._failed(str(error))
            return None

    def _failed(self, text: str) -> None:
        self._story.tell(f"failed: {text}")
        self.failures.append(text)


def _write(part: Document, path: Path) -> None:
    """Merge a part into the document, and rewrite the page."""
    old = from_json(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else Document()
    whole = merged(old, part)
    path.write_text(json.dumps(as_json(whole), indent=1) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(render(whole), encoding="utf-8")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
