"""Formats numbers and names for people (page, terminal; JSON has plain numbers), and checks texts from outside."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jinja2 import Environment

_UNIT_SECONDS: Final = MappingProxyType({"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0})
_KINDS: Final = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "a map",
}

UNKNOWN = "-"
RACKS_UNKNOWN = (
    "the racks of its members or brokers are unknown; set client.rack in the members, or their racks in "
    "racks.client_ids or racks.networks, and broker.rack on the brokers"
)
"""Why the share of a group that crosses racks is not known, and the cure."""
_SHORT_ID = 8
_SOME = 3
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size(count: float | None) -> str:
    """Format bytes with three digits, in decimal units."""
    if count is None:
        return UNKNOWN
    amount = float(count)
    for unit in _UNITS[:-1]:
        if abs(amount) < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 99.95 else f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} {_UNITS[-1]}"


def rate(count: float | None) -> str:
    """Format bytes per second."""
    return UNKNOWN if count is None else f"{size(count)}/s"


def money(dollars: float | None) -> str:
    """Format dollars: with cents, and without them from $1000; less than a cent is not a price that a person reads."""
    if dollars is None:
        return UNKNOWN
    sign, amount = ("-" if dollars < 0 else ""), abs(dollars)
    if amount == 0:
        return "$0"
    if amount < 0.01:
        return f"{sign}<$0.01"
    return f"{sign}${amount:,.2f}" if amount < 999.995 else f"{sign}${amount:,.0f}"


def at_least(amount: str, *, is_lower_bound: bool) -> str:
    """Format an amount that may be a lower bound, as a part of what it is the sum of is not known."""
    return f"at least {amount}" if is_lower_bound and amount != UNKNOWN else amount


def monthly(dollars: float, *, guessed: bool = False) -> str:
    """Format dollars a month; a guess is what they may come to."""
    return f"{estimate(dollars, guessed=guessed)} a month"


def estimate(dollars: float, *, guessed: bool) -> str:
    """Format dollars that may be a guess; nothing is nothing in any case."""
    return f"up to about {money(dollars)}" if guessed and dollars else money(dollars)


def count(number: int | None, unknown: int = 0) -> str:
    """Format a number of things, and of how many parts it is not known: it is a lower bound then."""
    return _with_unknown(UNKNOWN if number is None else str(number), unknown)


def partitions_across(across: int | None, *, known: int, of: int) -> str:
    """Format how many partitions cross racks, and of how many that is known if not of all; None if of none."""
    if across is None:
        return "unknown"
    return f"{across}{f' of {known} known' if known < of else ''} partitions"


def percent(share: float | None) -> str:
    """Format a share between 0 and 1 as percent; one decimal below ten percent."""
    if share is None:
        return UNKNOWN
    return f"{share * 100:.0f} %" if share == 0 or share >= 0.0995 else f"{share * 100:.1f} %"


def some(names: Sequence[str], noun: str) -> str:
    """Return names with what they name: all of three, else the first and how many more."""
    return f"{noun}{'' if len(names) == 1 else 's'} {listed(names, len(names) if len(names) <= _SOME else 1)}"


def listed(names: Sequence[str], most: int) -> str:
    """Return the first of some names, separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def short_id(member_id: str) -> str:
    """Shorten a member id to its end: it is random, and what stands before it is often the same in a whole group."""
    return member_id if len(member_id) <= _SHORT_ID + 1 else f"…{member_id[-_SHORT_ID:]}"


def when(seconds: float) -> str:
    """Format a time (seconds since 1970) in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(seconds: float) -> str:
    """Format a duration."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def age(seconds: float | None, unknown: int = 0) -> str:
    """Format the age of a record, and of how many parts it is not known: it is a lower bound then."""
    return _with_unknown(UNKNOWN if seconds is None else span(seconds), unknown)


def _with_unknown(figure: str, unknown: int) -> str:
    return f"{figure} ({unknown} unknown)" if unknown else figure


def nearest(name: str, names: Collection[str], most: int = 5) -> str:
    """Format which existing names a user may have meant: the most similar ones first."""
    from difflib import get_close_matches  # noqa: PLC0415 - a probe does without

    if not names:
        return "there are no groups"
    similar = get_close_matches(name, names, n=most, cutoff=0.5)
    return f"closest matches: {listed([*similar, *sorted(set(names) - set(similar))], most)}"


def plain(text: str) -> str:
    """Make an external name safe for a terminal: replaces control characters by U+FFFD."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8; Python reads invalid bytes from outside as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def kind_of(value: object) -> str:
    """Return what a value of YAML is, in words."""
    return "nothing" if value is None else _KINDS.get(type(value), f"a {type(value).__name__}")


def seconds_of(text: str) -> float | None:
    """Return the seconds of a length of time such as 45s, 30m, 2h, 1d or 1w; None if the text is not one."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])", text.strip())
    return float(found[1]) * _UNIT_SECONDS[found[2]] if found else None


def page_environment(room: str) -> Environment:
    """Return an environment for web pages, with a package's templates and the common ones; all values are escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - for pages only

    made = Environment(
        loader=ChoiceLoader([PackageLoader(f"samerack.{room}"), PackageLoader("samerack.common")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(size=size, money=money, percent=percent, span=span)
    return made
