"""Tests which scenarios work with which client: groups of many clients, with the real agent on a real Kafka.

`scripts/clients` runs it and writes docs/clients.json and docs/clients.md; the page is made only from the document.
"""
