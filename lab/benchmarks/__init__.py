"""Benchmarks: each module measures one thing, and `shared` writes what it found into docs/.

A benchmark has `PARTS`: for each name a function that measures, and one that makes Markdown of what that returned.
`scripts/bench` runs them, the tests never do.
"""
