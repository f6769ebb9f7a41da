"""`scripts/clients`: tests which scenarios work with which client, and how groups start while an agent waits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markdown import Markdown

from lab.sandbox.admin import Admin
from lab.sandbox.clients.initial_rebalances import NAMES, run_initial_rebalances
from lab.sandbox.clients.page import render
from lab.sandbox.clients.results import CLIENTS, DOCUMENTS, Document, Variant, merged, variants
from lab.sandbox.clients.scenario_group import ScenarioGroup
from lab.sandbox.errors import SandboxError
from lab.sandbox.story import Keep, Story, command, complain, evidence, log_console, run_story, three_brokers

_DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "clients.json"
_LOG_COLUMNS: Final = 200
_MANY: Final = 30
_MANY_CLIENTS: Final = ("java", "confluent")
_DEFAULT_DELAY: Final = {"group.initial.rebalance.delay.ms": "3000"}
"""Kafka's own default."""


def main(  # noqa: PLR0913 - one parameter for each option
    *,
    clients: Annotated[str, typer.Option(help="Names, separated by commas.")] = ",".join(CLIENTS),
    parts: Annotated[str, typer.Option(help="scenarios, initial and initial-30, separated by commas.")] = (
        "scenarios,initial,initial-30"
    ),
    tries: Annotated[int, typer.Option(min=1, help="Groups that begin, for each client and assignor.")] = 20,
    at_once: Annotated[int, typer.Option(min=1, help="Groups at a time; each has one beside it without an agent.")] = 4,
    write: Annotated[bool, typer.Option(help="Write docs/clients.json and docs/clients.md.")] = False,
    keep: Keep = False,
) -> None:
    """Play every scenario with groups of every client, and hold that nothing is lost; exit code 1 if anything was.

    What is written replaces what the document knew of the same clients, and leaves the rest as it is.
    """
    chosen = clients.split(",")
    if unknown := set(chosen) - set(CLIENTS):
        raise typer.BadParameter(f"no such client: {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    failures: list[str] = []

    def play(story: Story) -> dict[str, Any]:
        document = Document()
        with evidence(story, "samerack-clients-", keep=keep) as kept:
            with three_brokers(story.report, properties=_DEFAULT_DELAY) as (cluster, admin):
                run = _Parts(
                    story=story,
                    bootstrap=cluster.bootstrap,
                    admin=admin,
                    folder=kept.folder,
                    tries=tries,
                    at_once=at_once,
                    failures=failures,
                )
                for part in run.parts(parts.split(","), variants(chosen)):
                    document = merged(document, part)
                    if write:
                        _write(part)
            kept.keep |= bool(document.complaints or failures)
        return {"document": document}

    console = log_console(_LOG_COLUMNS)
    document: Document = run_story(console, play)["document"]
    console.print(Markdown(render(document)))
    complain(console, [*failures, *document.complaints])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """Plays parts on one cluster; a failure is reported and recorded, and the rest goes on."""

    story: Story
    bootstrap: str
    admin: Admin
    folder: Path
    tries: int
    at_once: int
    failures: list[str]

    def parts(self, names: Sequence[str], found: Sequence[Variant]) -> Iterator[Document]:
        """Yield the result of each group or client."""
        if "initial" in names:
            yield from (self._initial(one, len(NAMES)) for one in found)
        if "initial-30" in names:
            yield from (self._initial(one, _MANY) for one in found if one.client in _MANY_CLIENTS and not one.assignor)
        if "scenarios" in names:
            with ThreadPoolExecutor(self.at_once) as pool:
                yield from pool.map(self._scenarios, found)

    def _initial(self, variant: Variant, members: int) -> Document:
        what = f"{variant.name}, {members} members from the first generation"
        try:
            row = run_initial_rebalances(
                variant,
                members=members,
                tries=self.tries,
                at_once=max(1, min(self.at_once, _MANY // members)),
                bootstrap=self.bootstrap,
                admin=self.admin,
                folder=self.folder / f"initial-{members}-{variant.name}",
            )
        except SandboxError as error:
            return self._failed(f"{what}: {error}")
        self.story.report(
            f"{what}: led {row.led} of {row.tries} in {row.with_seconds:.1f} s, without the agent "
            f"{row.without_seconds:.1f} s, later {row.late_seconds:.1f} s at most, {len(row.findings)} findings"
        )
        return Document(initial=(row,))

    def _scenarios(self, variant: Variant) -> Document:
        folder = self.folder / f"scenarios-{variant.name}"
        folder.mkdir()
        try:
            group = ScenarioGroup(variant, bootstrap=self.bootstrap, admin=self.admin, folder=folder)
            return Document(scenarios=(group.run(self.story.report),))
        except SandboxError as error:
            return self._failed(str(error))

    def _failed(self, text: str) -> Document:
        self.story.report(f"failed: {text}")
        self.failures.append(text)
        return Document()


def _write(part: Document) -> None:
    """Merge a part into the document, and rewrites the page."""
    whole = merged(DOCUMENTS.validate_json(_DOCUMENT.read_bytes()), part)
    _DOCUMENT.write_text(json.dumps(DOCUMENTS.dump_python(whole, mode="json"), indent=1) + "\n", encoding="utf-8")
    _DOCUMENT.with_suffix(".md").write_text(render(whole), encoding="utf-8")


if __name__ == "__main__":
    command(main)
