"""The sandbox's one error type, which everything in it raises that starts, changes, waits for or stops something."""


class SandboxError(Exception):
    """The sandbox could not start, change or stop something, or waited for it in vain.

    The message says what; if a process caused it, the message ends with the last lines of that process's log.
    """
