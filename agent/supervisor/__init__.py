"""The process that watches over the one that works: a death costs a group one rebalance at most, never its session."""
