"""Leads one consumer group: membership, planning, decisions about rebalances, and reporting."""
