"""Runs assignors for a caller: a whole group in one call, or within a deadline in a process that can be killed."""
