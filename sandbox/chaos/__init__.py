"""Faults on a real three-rack cluster under load, with agents and without: what they cost the groups.

`scripts/chaos` runs it. Members tell what they own and read (`sandbox.history`), and what they tell is judged; nothing
takes the agent's word for what happened to a group.
"""
