"""One HTTP request to servers on loopback that answer too slowly, too early or incorrectly."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate, parsedate_to_datetime

import pytest

from samerack.common.fetching import NoAnswerError, ask
from tests.unit.waiting import LONGEST_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"


@contextmanager
def server(answers: Callable[[socket.socket], None]) -> Iterator[str]:
    """The URL of a server that reads one request and lets the test answer it."""

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            answers(connection)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            thread.join()


def test_an_answer_has_the_time_of_whoever_gives_it() -> None:
    """The header Date allows to compare clocks; without it the date is empty."""
    date = formatdate(1_700_000_000, usegmt=True)
    with server(lambda connection: connection.sendall(HEAD + f"Date: {date}\r\n\r\nhello".encode())) as url:
        answer = ask(url, "/", seconds=LONGEST_SECONDS)
    assert (answer.status, answer.body) == (200, b"hello")
    assert parsedate_to_datetime(answer.date).timestamp() == 1_700_000_000
    with server(lambda connection: connection.sendall(HEAD + b"\r\nhello")) as url:
        assert ask(url, "/", seconds=LONGEST_SECONDS).date == ""


def test_an_answer_that_ends_too_early_is_none() -> None:
    """An incomplete answer is refused."""
    with (
        server(lambda connection: connection.sendall(HEAD + b"\r\nhel")) as url,
        pytest.raises(NoAnswerError, match="3 bytes read, 2 more expected"),
    ):
        ask(url, "/", seconds=LONGEST_SECONDS)


def test_an_answer_in_drips_is_given_up() -> None:
    """Each part comes in time, but the whole answer would take minutes."""
    done = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not done.wait(0.02):
            try:
                connection.sendall(b" ")
            except OSError:
                return

    with server(drip) as url:
        try:
            with pytest.raises(NoAnswerError, match=r"no answer within 0\.3 s"):
                ask(url, "/", seconds=0.3)
        finally:
            done.set()


def test_a_header_that_is_none_is_not_shown() -> None:
    """A header that HTTP does not allow may contain a secret, so the error does not show it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match="characters that HTTP does not allow") as raised:
            ask(url, "/", seconds=LONGEST_SECONDS, headers={"Authorization": "hidden\nsecret"})
    assert "hidden" not in str(raised.value)
