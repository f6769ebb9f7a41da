"""Checks for growth in an hour of two agents that lead three groups under load, with replica moves every minute.

`scripts/soak` runs it. Memory, descriptors and threads are the kernel's figures, lag is the difference between brokers'
offsets and members' reads; no figure comes from the agent.
"""
