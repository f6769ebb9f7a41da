"""The sandbox's one error type."""


class SandboxError(Exception):
    """The sandbox could not start, change or stop something.

    The message says what; if a process caused it, the message ends with the last lines of that process's log.
    """
