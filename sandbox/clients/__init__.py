"""What works with which client: groups of many clients, scenario by scenario, with the real agent on a real Kafka.

`scripts/clients` runs it and writes docs/clients.json and docs/clients.md; the page is made of the document alone.
"""
