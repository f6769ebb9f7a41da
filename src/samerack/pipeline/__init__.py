"""The fleet pipeline on Spark: writes agents' records from Kafka to tables, and computes reports and what-ifs."""
