"""How fast and how small the assignors are: scenarios, their measurement, and the page that shows it.

Run by scripts/bench, never by the tests.
"""
