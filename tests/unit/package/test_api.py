"""The public names of `samerack`, and the page that lists them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import samerack
from tests import api_page


@pytest.mark.parametrize("name", samerack.__all__)
def test_every_public_name_is_there(name: str) -> None:
    """Each name is imported from its module, has a docstring, and keeps its name."""
    found = getattr(samerack, name)
    assert found.__doc__
    assert found.__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As in any module, so that `hasattr` and `from samerack import ...` work as usual."""
    assert not hasattr(samerack, "nothing")


def test_importing_samerack_imports_nothing_else() -> None:
    """`import samerack` loads no numpy and no module of ours until a name is used."""
    code = "import sys, samerack; print([name for name in sys.modules if name.startswith(('numpy', 'samerack.'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_page_is_current() -> None:
    """The reference of docs/library.md equals the docstrings."""
    page = (Path(__file__).parents[3] / "docs" / "library.md").read_text(encoding="utf-8")
    assert page == api_page.replaced(page), "run: python -m tests.api_page"
