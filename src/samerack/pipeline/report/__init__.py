"""The report of a period: what a fleet read across racks, its cost, what was saved and what can still be saved.

Functions compute figures from the tables (frames in, frames out); `values` converts the figures to one value
(`fleet_report`), from which the page is made; `export` writes frames to files.
"""
