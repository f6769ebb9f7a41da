"""Assignors for Python's Kafka clients: rack-aware groups (KIP-881) without an agent, by one line of configuration.

`plugins.kafka_python` and `plugins.aiokafka` adapt them to the clients.
"""
