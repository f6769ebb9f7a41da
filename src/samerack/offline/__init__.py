"""Commands without brokers and agents: assign a group, encode and decode messages, compare Streams assignors."""
