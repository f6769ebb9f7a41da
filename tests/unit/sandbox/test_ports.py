"""Ports that two processes of the sandbox choose at the same time are different ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lab.sandbox import settings

PORTS = range(20_000, 20_006)
OTHER = """
import sys
from lab.sandbox import settings
settings._PORTS = range(20_000, 20_006)
given = open(sys.argv[1], "a")
settings._given_ports = lambda: given
print(*settings.free_ports(3), flush=True)
sys.stdin.read()
"""


def test_a_port_that_another_process_was_given_is_not_given_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Found: two clusters chose one port, and a broker could not start, since nobody listened there yet.

    The file of given ports is the test's own: another run of it on this machine keeps its ports to its end.
    """
    monkeypatch.setattr(settings, "_PORTS", PORTS)
    line = [sys.executable, "-c", OTHER, str(tmp_path / "given")]
    with (
        (tmp_path / "given").open("a") as given,
        subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
    ):
        monkeypatch.setattr(settings, "_given_ports", lambda: given)
        assert other.stdout is not None
        theirs = {int(port) for port in other.stdout.readline().split()}
        ours = set(settings.free_ports(3))
        other.communicate()
    assert len(theirs) == len(ours) == 3
    assert not theirs & ours
