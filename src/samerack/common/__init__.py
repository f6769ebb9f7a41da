"""The code that the agent and the pipeline share: settings, errors, prices, and the records between them.

Values and data only.
"""
