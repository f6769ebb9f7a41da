"""Racks of pods: of the one that the agent runs in, and of those that consumers run in."""
