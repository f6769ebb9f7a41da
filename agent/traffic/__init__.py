"""What consumer groups read, from which rack, in bytes: measured from outside, exactly where an application helps."""
