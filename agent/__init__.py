"""The running program: settings, cluster watch, group leadership, policy, metrics, web and command line."""
