"""Values -> assignment: pure functions on one min-cost-flow engine. No I/O, no clock, no log."""
