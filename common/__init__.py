"""What the agent and the pipeline share: settings, errors, prices, and the records that go from one to the other.

Values and data only. What must not enter: anything that talks to a broker, and anything that only one of the two uses.
"""
