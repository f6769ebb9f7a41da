"""The sandbox's one error type."""


class SandboxError(Exception):
    """The sandbox could not start, change or stop something.

    The message says what, and where a process is to blame it ends with the last lines of that process's log.
    """
