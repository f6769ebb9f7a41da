"""The fleet on Spark: agents' records from Kafka into tables, and reports and what-if questions on them.

Builds on `assignors` and `common`, never on `agent`.
"""
