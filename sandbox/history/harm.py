"""Counts what was wrong in the histories of a run, over all of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from sandbox.history.model import Finding, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """Counts of what no run may cause.

    Attributes:
        lost: records that no member read.
        owned_twice: how often two members owned a partition in one generation.
        read_again: how often records below a commit were read again.
        forgotten: committed offsets that the coordinator no longer had.
    """

    lost: int
    owned_twice: int
    read_again: int
    forgotten: int

    def __str__(self) -> str:
        """Returns the counts in words."""
        words = f"{self.lost} lost, {self.owned_twice} owned twice, {self.read_again} read again below a commit"
        return f"{words}, {self.forgotten} offsets forgotten"


def harm(findings: Mapping[str, Iterable[Finding]]) -> Harm:
    """Count the findings of all groups."""
    found = list(chain.from_iterable(findings.values()))
    return Harm(
        lost=sum(one.records for one in found if one.kind is Kind.SKIPPED),
        owned_twice=sum(one.kind is Kind.OWNED_TWICE for one in found),
        read_again=sum(one.kind is Kind.READ_AGAIN for one in found),
        forgotten=sum(one.kind is Kind.FORGOTTEN for one in found),
    )
