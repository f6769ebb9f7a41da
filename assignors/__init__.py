"""Computes assignments: pure functions on one minimum-cost-flow engine. No I/O, no clock, no log."""
