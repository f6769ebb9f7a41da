"""Benchmarks of time and memory: scenarios, their measurement, and the pages with the results.

`scripts/bench` runs them, the tests never do.
"""
