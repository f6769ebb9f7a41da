"""What the agent and the pipeline share: settings, errors, prices, and the records that go from one to the other.

Values and data only.
"""
