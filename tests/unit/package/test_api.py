"""The public names of `samerack`, and the page that lists them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import samerack


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
