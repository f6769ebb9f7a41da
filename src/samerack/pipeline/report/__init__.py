"""The report of a period: what a fleet read across racks, its cost, what was saved and what can still be saved.

Functions compute figures from the tables (`figures` and `chapters`: frames in, frames out); `gather` converts them to
one value (`fleet_report`), from which `page` makes the files.
"""
