"""Kafka settings as texts, whatever YAML made of them: the one form that both clients take."""

from __future__ import annotations

from collections.abc import Mapping

from samerack.common.errors import SettingsError
from samerack.common.servers import wrong_servers
from samerack.common.texts import is_utf8


def kafka_texts(value: object, place: str) -> object:
    """Returns the values of a map as texts, a list with commas; what is no map as it is.

    Args:
        value: The map.
        place: Its name in the settings, for messages.

    Raises:
        SettingsError: A value has no such form. Not a ValueError: pydantic would show that with the whole of the map,
            passwords included.
    """
    if not isinstance(value, Mapping):
        return value
    texts = {str(key): _as_text(f"{place}.{key}", item) for key, item in value.items()}
    if wrong := wrong_servers(texts["bootstrap.servers"]) if texts.get("bootstrap.servers") else "":
        raise SettingsError(f"{place}.bootstrap.servers: {wrong}")
    return texts


def _as_text(place: str, value: object) -> str:
    if isinstance(value, list) and not any(isinstance(item, list) for item in value):
        return ",".join(_as_text(place, item) for item in value)
    if value is None or isinstance(value, Mapping | list):
        has = "no value" if value is None else "lists in a list" if isinstance(value, list) else "keys of its own"
        raise SettingsError(f"{place}: has {has}; expected a text")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_utf8(text):
        raise SettingsError(f"{place}: holds what cannot be written in UTF-8; expected a text")
    return text
