"""Measures what consumer groups read, from which rack, in bytes: from outside, exactly where an application helps."""
