"""`scripts/simulate`: runs many seeds on all processors, and prints the shortest story of each violation."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack, redirect_stdout
from dataclasses import asdict
from typing import Any, Final
from unittest import mock

from samerack.agent.leading import takeover_attempt
from samerack.agent.leading.takeover_attempt import TRANSITIONS, Step, TakeoverEvent, Transition, transition
from tests.simulator import deploys
from tests.simulator.agent import simulated
from tests.simulator.invariants import ViolationError
from tests.simulator.plants import PLANTS
from tests.simulator.story import STEPS_OF_A_STORY, play_story

_CHUNK: Final = 25
_PROGRESS_SECONDS: Final = 5.0


_ROWS: Final = tuple((step, row.event) for row in TRANSITIONS for step in row.steps)


def play(first: int, count: int, plant: str = "") -> tuple[list[dict[str, Any]], Counter[tuple[Step, TakeoverEvent]]]:
    """The violations in the stories of some seeds, and how often each transition of a takeover took place."""
    found = []
    seen: Counter[tuple[Step, TakeoverEvent]] = Counter()

    def counted(step: Step, event: TakeoverEvent) -> Transition:
        seen[step, event] += 1
        return transition(step, event)

    with ExitStack() as stack:
        stack.enter_context(simulated())
        stack.enter_context(PLANTS[plant]())
        stack.enter_context(mock.patch.object(takeover_attempt, "transition", counted))
        stack.enter_context(redirect_stdout(sys.stderr))  # hypothesis prints messages, which are no JSON
        for number in range(first, first + count):
            try:
                play_story(number)
            except ViolationError as violation:
                text, _, tale = str(violation).partition("\n")
                found.append(
                    {
                        "seed": number,
                        "kind": type(violation).__name__,
                        "violation": text,
                        "story": [line for note in getattr(violation, "__notes__", ()) for line in note.split("\n")],
                        "tale": tale.split("\n"),
                    }
                )
    return found, seen


def _takeovers(seen: Counter[tuple[Step, TakeoverEvent]]) -> str:
    never = ", ".join(f"{event.name} in {step.name}" for step, event in _ROWS if not seen[step, event])
    return f"takeovers: {len(seen)} of {len(_ROWS)} transitions took place" + (f"; never: {never}" if never else "")


def _chunks(first: int, count: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, _CHUNK):
        yield start, min(_CHUNK, first + count - start)


def _progress(done: int, count: int, violations: int, started: float) -> None:
    took = time.monotonic() - started
    left = took / done * (count - done)
    sys.stderr.write(f"simulate: {done} of {count} seeds, {violations} violations, {left:.0f} s left\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 without a violation; with a plant, exit code 0 if there is one."""
    parser = argparse.ArgumentParser(
        prog="scripts/simulate",
        description="Plays stories of faults on a simulated group that the real agent leads, one story of "
        f"{STEPS_OF_A_STORY} steps for each seed, and prints the shortest of each that ends badly. The same seed is "
        "the same story.",
        epilog="examples: scripts/simulate --seeds 10000 --json; scripts/simulate --first 195 --seeds 1; "
        "scripts/simulate --plant one-phase --seeds 1000",
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at once (default: all)")
    parser.add_argument("--plant", default="", choices=sorted(PLANTS), help="a mistake that the agent is to make")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument(
        "--deploys",
        type=int,
        metavar="GROUPS",
        default=0,
        help="print instead in how many of so many groups, of several sizes and protocols, the agent leads after "
        "one rolling deploy, after two and after three",
    )
    options = parser.parse_args(arguments)
    if options.deploys:
        rows = list(deploys.rows(options.deploys, options.processes))
        sys.stdout.write((json.dumps([asdict(row) for row in rows]) if options.json else deploys.table(rows)) + "\n")
        return 0
    started = shown = time.monotonic()
    found: list[dict[str, Any]] = []
    seen: Counter[tuple[Step, TakeoverEvent]] = Counter()
    done = 0
    with ProcessPoolExecutor(options.processes) as pool:
        running = {
            pool.submit(play, first, count, options.plant): count
            for first, count in _chunks(options.first, options.seeds)
        }
        try:
            for future in as_completed(running):
                violations, transitions = future.result()
                seen += transitions
                for one in violations:
                    found.append(one)
                    sys.stderr.write(f"simulate: seed {one['seed']}: {one['violation']}\n")
                done += running[future]
                if time.monotonic() - shown > _PROGRESS_SECONDS:
                    shown = time.monotonic()
                    _progress(done, options.seeds, len(found), started)
                if found and options.plant:
                    break
        except KeyboardInterrupt:
            sys.stderr.write("simulate: interrupted; what follows is of the seeds until now\n")
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    found.sort(key=lambda one: one["seed"])
    seconds = time.monotonic() - started
    if options.json:
        summary = {
            "seeds": done,
            "seconds": round(seconds, 1),
            "plant": options.plant,
            "violations": found,
            "takeover_transitions": {f"{step.name} {event.name}": seen[step, event] for step, event in _ROWS},
        }
        sys.stdout.write(json.dumps(summary, indent=1) + "\n")
    else:
        for one in found:
            sys.stdout.write(
                "\n".join((f"seed {one['seed']}: {one['violation']}", *one["story"], *one["tale"], "")) + "\n"
            )
        sys.stdout.write(f"{_takeovers(seen)}\n{done} seeds in {seconds:.0f} s: {len(found)} violations\n")
    return int(bool(found) is not bool(options.plant))


if __name__ == "__main__":
    sys.exit(main())
