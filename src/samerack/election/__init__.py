"""Election among several agents, in a Kafka group of their own: one is active per responsibility; racks are shared."""
