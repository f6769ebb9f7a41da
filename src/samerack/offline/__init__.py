"""Commands without brokers and agents: assign a group, compare Streams assignors."""
