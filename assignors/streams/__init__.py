"""Kafka Streams tasks: KIP-924's model and utilities, KIP-441's and KIP-925's assignors, KIP-708's tags."""
