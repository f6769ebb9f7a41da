"""How much memory a process holds is read from the kernel."""

from __future__ import annotations

import os

from agent.supervisor.memory import resident_bytes


def test_a_process_holds_what_the_kernel_says() -> None:
    """This one more than it has just taken, by its id as by name; one that is gone nothing."""
    before = resident_bytes()
    taken = bytearray(os.urandom(1)) * 50_000_000
    assert resident_bytes() > before + 40_000_000
    assert resident_bytes(os.getpid()) > len(taken)
    assert resident_bytes(2**22 + 1) == 0
