"""A headless Chromium that tests ask about a page: what it measures, loads, and complains of.

Protocol: Chrome DevTools over pipes (file descriptors 3 and 4, messages that end in a zero byte).
"""

import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
MISSING = "no Chromium on the PATH (chromium, chromium-browser, google-chrome)"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

_SHELL = 'exec "$0" "$@" 3<&0 4>&1 1>&2'
_TIMEOUT_S = 120
"""How long an answer may take: the machine may be busy, and a browser that hangs never answers."""


class Browser:
    """One tab. events: what it has told without being asked, by the name of the event."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.events: list[dict[str, Any]] = []
        self._process = process
        self._last = 0
        self._unread = b""
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """The answer to a command."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        session = {"sessionId": self._session} if self._session else {}
        assert self._process.stdin
        self._process.stdin.write(json.dumps({**message, **session}).encode() + b"\0")
        self._process.stdin.flush()
        while (answer := self._read()).get("id") != self._last:
            self.events.append(answer)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path | str, width: int, *, media: str = "screen", scheme: str = "light") -> None:
        """Load a file or a URL in a window of this width, on a screen or printed, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._go_to("about:blank")  # what the page before this one still asks for, and complains of, is not this one's
        self._go_to(page.as_uri() if isinstance(page, Path) else page)

    def _go_to(self, url: str) -> None:
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not self.told("Page.loadEventFired"):
            self.events.append(self._read())

    def evaluate(self, expression: str) -> Any:
        """The value of JavaScript, which the page's own policy does not bind."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def told(self, name: str) -> list[dict[str, Any]]:
        """What the events of that name hold."""
        return [one["params"] for one in self.events if one.get("method") == name]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        while b"\0" not in self._unread:
            assert select.select([self._process.stdout], [], [], _TIMEOUT_S)[0], f"no answer in {_TIMEOUT_S} s"
            found = os.read(self._process.stdout.fileno(), 1 << 16)
            assert found, f"the browser has ended, exit code {self._process.wait()}"
            self._unread += found
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser while the context is open. profile: an empty folder."""
    command = ["/bin/sh", "-c", _SHELL, PROGRAM, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        try:
            yield Browser(process)
        finally:
            process.kill()
