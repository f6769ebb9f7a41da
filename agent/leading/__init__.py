"""Leads one consumer group: keeps what is known of it, decides what to do, and does it.

`leader` runs one `session` per membership, turn by turn; `parts` has what outlives them.

- State: `polled_group`, `assigning`, `group_memory`, `group_requests`, `evictions`, `responsibility`, `progress`.
- Decisions: `admission`, `rebalance_evaluator`, `takeover`, `takeover_controller`.
- Effects on the group: `membership`, `initial_rebalance`, `join_position`, `takeover_attempt`, `leaving`.
- Reports: `group_reporter`.
"""
