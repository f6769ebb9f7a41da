"""Measures what faults cost groups on a real three-rack cluster under load, with agents and without.

`scripts/chaos` runs it. Members record what they own and read (`lab.sandbox.history`), and only these records are
evaluated, not the agent's own report of what happened to a group.
"""
