"""The code that all rooms share: errors, words, prices, services, and the records between agent and pipeline."""
