"""A real Chromium for the tests of the page, driven through chromedriver's HTTP interface (W3C WebDriver)."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import Request, urlopen

from lab.sandbox.admin import wait_until
from lab.sandbox.errors import SandboxError
from lab.sandbox.processes import end, spawn
from lab.sandbox.settings import HOST, free_ports

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
_SECONDS: Final = 30
_MAX_PIXELS: Final = 16_000
"""Chromium draws no higher picture, and says only that it failed."""
TAB: Final = "\ue004"
ENTER: Final = "\ue007"


class Browser:
    """One browser window; a context manager that ends it and removes its profile.

    Example:
        with Browser() as browser:
            browser.open("http://127.0.0.1:9464/")
            assert browser.run("return document.title") == "samerack"
    """

    def __init__(self) -> None:
        """Start chromedriver and a window.

        Raises:
            SandboxError: Chromium or chromedriver is not installed, or does not start.
        """
        program = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
        if program is None:
            raise SandboxError("no Chromium is installed; scripts/test installs it (Debian: chromium, chromium-driver)")
        (port,) = free_ports(1)
        self._url = f"http://{HOST}:{port}"
        self._profile = tempfile.mkdtemp(prefix="samerack-browser-")
        self._driver = spawn(["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._session = ""
        try:
            wait_until(self._is_ready, "chromedriver answers")
            options = {"binary": program, "args": [*_FLAGS, f"--user-data-dir={self._profile}"]}
            wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
            self._session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def open(self, url: str) -> None:
        """Load a page."""
        self._command("url", {"url": url})

    def run(self, script: str) -> Any:
        """Run a script in the page, and return its result."""
        return self._command("execute/sync", {"script": script, "args": []})

    def set_view(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and the preferred colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._devtools("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._devtools("Emulation.setEmulatedMedia", {"features": [scheme]})

    def press(self, key: str) -> None:
        """Press and release a key."""
        moves = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._command("actions", {"actions": [{"type": "key", "id": "keyboard", "actions": moves}]})

    def complaints(self) -> list[str]:
        """New console messages since the last call: errors, refused resources."""
        return [str(entry["message"]) for entry in self._command("se/log", {"type": "browser"})]

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Save a screenshot of the page, as far as the browser can draw it, or of what the window shows of it."""
        width, height = self.run("const e = document.documentElement; return [e.scrollWidth, e.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, _MAX_PIXELS), "scale": 1}
        shot = self._devtools("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip} if whole else {})
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser window and chromedriver."""
        if self._session:
            with suppress(OSError):
                self._ask("DELETE", f"/session/{self._session}", None)
        end(self._driver, kill=True)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Self:
        """Return the browser."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the browser."""
        self.close()

    def _is_ready(self) -> bool:
        try:
            return bool(self._ask("GET", "/status", None)["ready"])
        except OSError:
            return False

    def _devtools(self, command: str, parameters: dict[str, Any]) -> Any:
        return self._command("goog/cdp/execute", {"cmd": command, "params": parameters})

    def _command(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask("POST", f"/session/{self._session}/{path}", body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = Request(self._url + path, data=data, method=method)  # noqa: S310 - chromedriver of our own
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310 - see above
            return json.load(answer)["value"]
