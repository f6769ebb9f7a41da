"""Writes the files for spark-submit: a zip of the packages that the workers need too, and the program to submit."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

from samerack.common.errors import SettingsError

ROOMS: Final = ("assignors", "common", "pipeline")
ZIP: Final = "samerack-pipeline.zip"
PROGRAM: Final = "samerack_pipeline.py"
_LINES: Final = '''"""Runs samerack's pipeline under spark-submit; the zip beside it holds the code."""

from samerack.pipeline.job import main

main()
'''


def write(folder: Path) -> tuple[Path, Path]:
    """Write both files; returns the zip and the program.

    Raises:
        SettingsError: The folder cannot be written.
    """
    home = Path(__file__).parents[1]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(folder / ZIP, "w", ZIP_DEFLATED) as archive:
            archive.write(home / "__init__.py", "samerack/__init__.py")
            for room in ROOMS:
                for path in sorted((home / room).rglob("*")):
                    if path.is_file() and "__pycache__" not in path.parts:
                        archive.write(path, "samerack" / path.relative_to(home))
        (folder / PROGRAM).write_text(_LINES, encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{folder}: cannot be written ({error.strerror}); name another folder") from None
    return folder / ZIP, folder / PROGRAM
