"""The kernel's rules by which a chaos run cuts agents off: they must not affect other processes."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Final

import pytest

from sandbox.chaos.network import Network

_LOOPBACK: Final = "127.0.0.1"
_SPEAKER: Final = """
import socket, sys
with socket.socket() as connection:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    connection.bind(("127.0.0.1", int(sys.argv[1])))
    connection.connect(("127.0.0.1", int(sys.argv[2])))
    for line in sys.stdin:
        connection.sendall(line.encode())
"""
"""Sends its input from one port to another; several may share the first if the second differs."""
_SILENCE_SECONDS: Final = 0.5


@pytest.fixture
def network() -> Iterator[Network]:
    """The rules; they are removed at the end."""
    if not Network.possible():
        pytest.skip("root, iptables and setpriv are needed to have the kernel drop packets")
    with closing(Network(enabled=True)) as network:
        yield network


class _Speaker:
    """A process with one connection, and the broker's side of it."""

    def __init__(self, stack: ExitStack, port: int) -> None:
        broker = stack.enter_context(socket.create_server((_LOOPBACK, 0)))
        line = [sys.executable, "-c", _SPEAKER, str(port), str(broker.getsockname()[1])]
        self.process = stack.enter_context(subprocess.Popen(line, stdin=subprocess.PIPE, text=True))
        stack.callback(self.process.kill)
        broker.settimeout(10)
        self._heard, (_, self.port) = broker.accept()
        stack.enter_context(self._heard).settimeout(_SILENCE_SECONDS)

    def is_heard(self) -> bool:
        """Whether its data arrives."""
        assert self.process.stdin is not None
        print("?", file=self.process.stdin, flush=True)
        try:
            return self._heard.recv(2) == b"?\n"
        except TimeoutError:
            return False


def test_who_has_the_same_port_to_another_broker_is_not_buried(network: Network) -> None:
    """A member with the same local port as a cut-off agent stays connected; once it was cut off for a minute too."""
    with ExitStack() as stack:
        agent = _Speaker(stack, 0)
        member = _Speaker(stack, agent.port)
        assert (agent.port, agent.is_heard(), member.is_heard()) == (member.port, True, True)
        network.bury(agent.process.pid)
        assert (agent.is_heard(), member.is_heard()) == (False, True)
