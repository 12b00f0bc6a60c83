"""A Chromium without a window, told what to do over the DevTools protocol.

The protocol goes over two pipes that the browser is started with, so that nothing but Debian's
package `chromium` is needed: https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pytest
from processes import PATIENCE_SECONDS

PHONE = (390, 844)
DESK = (1000, 900)
_NAVIGATED = "Inspected target navigated or closed"


def need_chromium() -> None:
    """Skips the test where there is no browser."""
    if shutil.which("chromium") is None:
        pytest.skip("no chromium: apt-get install chromium")


class NavigatedError(Exception):
    """The page that was asked was replaced by another one before it could answer."""


class Page:
    """One page; what it asks of other hosts, and what goes wrong in it, is kept."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **parameters: Any) -> Any:
        return self._browser.call(method, self._session, **parameters)

    def set_up(self) -> None:
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def hear(self, event: dict[str, Any]) -> None:
        method, parameters = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.problems.append(json.dumps(parameters["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """As a screen of so many pixels shows it; narrow ones as a phone does."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def value(self, expression: str) -> Any:
        """Of an expression that may be worked out twice: a page that loads anew is asked again."""
        result = None
        while result is None:
            with contextlib.suppress(NavigatedError):
                result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait_for(self, expression: str) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.value(expression):
            assert time.monotonic() < end, f"never: {expression}; {self.text()}"
            self._browser.listen(0.05)

    def text(self) -> str:
        return str(self.value("document.body.innerText"))

    def type(self, selector: str, text: str) -> None:
        """As a person does: a click into it, then the letters."""
        self.value(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def press_enter(self) -> None:
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def too_wide(self) -> list[str]:
        """What sticks out of the screen; it would have to be scrolled sideways."""
        return list(self.value(
            "document.documentElement.scrollWidth <= innerWidth ? [] :"
            " [...document.querySelectorAll('body *')]"
            ".filter(e => e.getBoundingClientRect().right > innerWidth + 1)"
            ".map(e => e.outerHTML.slice(0, 80))") or [])

    def shoot(self, path: pathlib.Path, height: int) -> None:
        """A picture of the top of the page, as wide as the screen."""
        width = int(self.value("innerWidth"))
        picture = self.call("Page.captureScreenshot", format="webp", quality=80,
                            captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        path.write_bytes(base64.b64decode(picture["data"]))


class Browser:
    """Ends with its context."""

    def __init__(self, directory: pathlib.Path) -> None:
        read_calls, self._calls = os.pipe()
        self._answers, write_answers = os.pipe()
        # The browser has them as descriptors 3 and 4.
        starter = f"exec 3<&{read_calls} 4>&{write_answers}; exec \"$@\""
        self._process = subprocess.Popen(
            ["bash", "-c", starter, "bash", "chromium", "--headless", "--no-sandbox",
             "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
             "--disable-component-update", "--disable-background-networking", "--disable-sync",
             "--remote-debugging-pipe", f"--user-data-dir={directory / 'chromium'}",
             "about:blank"],
            pass_fds=(read_calls, write_answers), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, HOME=str(directory)))
        os.close(read_calls)
        os.close(write_answers)
        self._last_id = 0
        self._unread = b""
        self._results: dict[int, dict[str, Any]] = {}
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            os.write(self._calls, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._calls)
        os.close(self._answers)

    def new_page(self) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        page.set_up()
        return page

    def call(self, method: str, session: str = "", **parameters: Any) -> Any:
        self._last_id += 1
        number = self._last_id
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._calls, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE_SECONDS
        while number not in self._results:
            assert time.monotonic() < end, f"no answer to {method}"
            self.listen(0.5)
        answer = self._results.pop(number)
        if answer.get("error", {}).get("message") == _NAVIGATED:
            raise NavigatedError(method)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def listen(self, seconds: float) -> None:
        """Takes in what the browser says, for so long if it says nothing."""
        if not select.select([self._answers], [], [], seconds)[0]:
            assert self._process.poll() is None, "the browser has ended"
            return
        got = os.read(self._answers, 1 << 20)
        assert got, "the browser has ended"
        *messages, self._unread = (self._unread + got).split(b"\0")
        for message in map(json.loads, messages):
            if "id" in message:
                self._results[message["id"]] = message
            elif message.get("sessionId") in self._pages:
                self._pages[message["sessionId"]].hear(message)


@contextlib.contextmanager
def opened(directory: pathlib.Path) -> Iterator[Browser]:
    """A browser, or the test is skipped."""
    need_chromium()
    with Browser(directory) as browser:
        yield browser
