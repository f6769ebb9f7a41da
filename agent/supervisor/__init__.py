"""The process that supervises the worker: if the worker dies, a group has one rebalance at most, never a timeout."""
