"""A three-rack Kafka on this machine: real brokers and clients for the demo, tests and experiments."""
