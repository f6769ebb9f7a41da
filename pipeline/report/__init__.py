"""What a fleet read across racks in a period, what that cost, what was saved and what is still possible.

From the tables to figures (frames in, frames out), from figures to one value (`model`), from that to a page and to
files.
"""
