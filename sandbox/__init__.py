"""A three-rack Kafka on this machine: real brokers and clients for the demo and for trying things out."""
