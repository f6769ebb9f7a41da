"""The agent: cluster watch, group leadership, policy, traffic measurement, metrics, web server and command line."""
