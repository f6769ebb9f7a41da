"""What the agent measured, as records on Kafka topics for a whole fleet: windows, states, a bounded buffer, a producer.

Reads publications of the traffic board on a thread of its own; neither measuring nor leading ever waits for it.
"""
