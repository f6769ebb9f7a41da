"""Runs the other leaders: Kafka's Java in a JVM, franz-go's Go in a copy of its module; both with a time limit."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from samerack.assignors.model import NOBODY, Int32Array, Problem
from samerack.protocol.consumer import decode_assignment
from tests.parity.peer import Peer

FRANZ: Final = "github.com/twmb/franz-go"
FRANZ_VERSION: Final = "v1.22.2"
_GO_TEST: Final = Path(__file__).parent / "go" / "samerack_test.go"

Answer = dict[str, Any]


def ask_java(question: Answer, *, seconds: float) -> Answer | None:
    """Returns Kafka's answer, or None where it needs more time or memory than it has."""
    with Peer(heap="4g") as peer:
        watch = threading.Timer(seconds, peer.kill)
        watch.start()
        try:
            return peer.ask(question)
        except (RuntimeError, BrokenPipeError):
            return None
        finally:
            watch.cancel()


class Franz:
    """franz-go's sticky balancer in a copy of its module; a context manager that removes the copy."""

    def __init__(self) -> None:
        described = _go("mod", "download", "-json", f"{FRANZ}@{FRANZ_VERSION}", folder=Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix="samerack-franz-"))
        copy = self._folder / "franz-go"
        shutil.copytree(json.loads(described)["Dir"], copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        package = copy / "pkg" / "kgo"
        shutil.copyfile(_GO_TEST, package / _GO_TEST.name)
        self._program = self._folder / "kgo.test"
        _go("test", "-c", "-o", str(self._program), "./pkg/kgo", folder=copy)

    def ask(self, question: Answer, *, seconds: float) -> Answer | None:
        """Returns franz-go's answer, or None where it takes longer."""
        asked, answered = self._folder / "questions", self._folder / "answers"
        asked.write_text(json.dumps(question) + "\n")
        environment = os.environ | {"QUESTIONS": str(asked), "ANSWERS": str(answered)}
        command = [str(self._program), "-test.run", "^TestSamerack$"]
        try:
            subprocess.run(command, env=environment, check=True, timeout=seconds, stdout=subprocess.DEVNULL)  # noqa: S603 - built above
        except subprocess.TimeoutExpired:
            return None
        answer: Answer = json.loads(answered.read_text())
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _go(*arguments: str, folder: Path) -> str:
    return subprocess.run(["go", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603, S607 - Go as installed


def owners(problem: Problem, answer: Answer) -> Int32Array:
    """Returns the owner of each partition in an answer, decoded; NOBODY where the answer names none."""
    counts = np.bincount(problem.topic_of, minlength=len(problem.topics))
    first = dict(zip(problem.topics, np.concatenate([[0], np.cumsum(counts)[:-1]]).tolist(), strict=True))
    owner = np.full(len(problem.topic_of), NOBODY, np.int32)
    for index, member in enumerate(problem.members):
        if sent := answer["assignment"].get(member):
            partitions = decode_assignment(base64.b64decode(sent)).partitions
            for topic, numbers in zip(partitions.topics, partitions.numbers, strict=True):
                owner[first[topic] + numbers] = index
    return owner
