"""Several agents: a Kafka group of their own, in which one is made active for each duty and racks are told around."""
