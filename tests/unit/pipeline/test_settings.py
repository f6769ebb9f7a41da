"""The pipeline's own settings: what is refused, and that no error shows a secret."""

from __future__ import annotations

import pytest

from samerack.common.errors import SettingsError
from samerack.settings.loading import load


@pytest.mark.parametrize(
    ("conf", "words"),
    [
        ("{spark.hadoop.fs.s3a.secret.key: hidden", "must be a map, got a string"),
        ({"spark.hadoop.fs.s3a.secret": {"key": "hidden"}}, r"spark\.hadoop\.fs\.s3a\.secret: has keys of its own"),
        ({"spark.driver.memory": None}, r"spark\.driver\.memory: has no value"),
    ],
)
def test_what_is_no_setting_of_sparks_is_refused_without_its_value(conf: object, words: str) -> None:
    """The error does not show the value, which may be a storage password."""
    with pytest.raises(SettingsError, match=rf"^pipeline\.conf[:.] ?{words}") as raised:
        load(flags={"pipeline": {"conf": conf}}, environment={}, needs_kafka=False)
    assert "hidden" not in str(raised.value)


def test_texts_numbers_and_booleans_are_texts() -> None:
    """Spark accepts only texts, so numbers and booleans become texts."""
    conf = {"spark.ui.enabled": True, "spark.executor.cores": 2, "spark.driver.memory": "4g"}
    found = load(flags={"pipeline": {"conf": conf}}, environment={}, needs_kafka=False).pipeline.conf
    assert found == {"spark.ui.enabled": "true", "spark.executor.cores": "2", "spark.driver.memory": "4g"}
