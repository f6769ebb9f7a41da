"""Rack-aware assignment of Kafka consumer groups: the functions for programs that use samerack as a library.

Each name is imported when it is first used, so that `import samerack` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from samerack.assignors.build import MemberInput
    from samerack.assignors.consumer.optimal import Options
    from samerack.assignors.problem import AssignmentError
    from samerack.planning.group import assign_group
    from samerack.protocol.consumer import (
        decode_assignment,
        decode_subscription,
        encode_assignment,
        encode_subscription,
    )
    from samerack.protocol.errors import ProtocolError
    from samerack.protocol.values import Assignment, Subscription, TopicPartitions, from_pairs, to_pairs

__all__ = [
    "Assignment",
    "AssignmentError",
    "MemberInput",
    "Options",
    "ProtocolError",
    "Subscription",
    "TopicPartitions",
    "assign_group",
    "decode_assignment",
    "decode_subscription",
    "encode_assignment",
    "encode_subscription",
    "from_pairs",
    "to_pairs",
]

_MODULES: Final = {
    "Assignment": "protocol.values",
    "AssignmentError": "assignors.problem",
    "MemberInput": "assignors.build",
    "Options": "assignors.consumer.optimal",
    "ProtocolError": "protocol.errors",
    "Subscription": "protocol.values",
    "TopicPartitions": "protocol.values",
    "assign_group": "planning.group",
    "decode_assignment": "protocol.consumer",
    "decode_subscription": "protocol.consumer",
    "encode_assignment": "protocol.consumer",
    "encode_subscription": "protocol.consumer",
    "from_pairs": "protocol.values",
    "to_pairs": "protocol.values",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'samerack' has no attribute {name!r}")
    return getattr(import_module(f"samerack.{_MODULES[name]}"), name)
