"""Publishes what the agent measured to Kafka topics for a whole fleet: windows, states, a bounded buffer, a producer.

It reads publications of the traffic board on a thread of its own; neither measuring nor leading ever waits for it.
"""
