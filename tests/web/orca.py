"""What Orca says of the page, in Firefox and in Chromium, on a screen that nobody sees: for
`bash scripts/test_elsewhere orca`. The suite itself does not collect this file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyframe import serve, web

from . import test_access
from .conftest import CHROMIUM, FIREFOX, FLAGS, running

# Orca reads this when it starts: no voice is wanted, and what it says goes into a file.
CUSTOM = """
from orca import settings, speech
speech.init = lambda: None
settings.enableKeyEcho = settings.enableEchoByCharacter = False
out = open({path!r}, "a", buffering=1)
speech.log.info = lambda line: print(line, file=out)
"""
SLIDER = web.Slider("lr", 1e-4, 0.2, 0.05, log=True, label="Learning rate")


class Desk:
    """A page, and who reads it."""

    def __init__(self, page: test_access.Access, heard: Path) -> None:
        self.page, self._heard = page, heard

    def keys(self, *keys: str) -> None:
        subprocess.run(["xdotool", "key", "--delay", "100", *keys], check=True)

    def hears(self, *texts: str, once: bool = True) -> None:
        """Waits until these were said since the last call; what else was said does not count."""
        end, said = time.monotonic() + 30, [""]
        while time.monotonic() < end and not set(texts) <= set(said):
            self.page.page.wait_for_timeout(500)  # in which Playwright answers the page, too
            text = self._heard.read_text().replace(" horizontal", "")  # Chromium's sliders
            said = re.findall(r"SPEECH OUTPUT: '(.*?)\.?'", text)
        os.truncate(self._heard, 0)
        assert set(texts) <= set(said), said
        assert not once or all(said.count(text) == 1 for text in texts), said


@pytest.fixture(scope="module")
def screen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A screen, a bus, a window manager and Orca; the file with all that it said."""
    home = tmp_path_factory.mktemp("orca")
    heard = home / "heard"
    heard.touch()
    (home / "orca").mkdir()
    (home / "orca" / "orca-customizations.py").write_text(CUSTOM.format(path=str(heard)))
    begun: list[subprocess.Popen[str]] = []

    def begin(*command: str) -> subprocess.Popen[str]:
        kind: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        begun.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, **kind))
        return begun[-1]

    def end() -> None:
        for each in reversed(begun):
            os.killpg(each.pid, signal.SIGKILL)
            each.communicate()

    with contextlib.ExitStack() as stack:
        stack.callback(end)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        shown = begin("Xvfb", "-displayfd", "1", "-screen", "0", "1300x1200x24").stdout
        patch.setenv("DISPLAY", f":{shown.readline().strip()}")
        bus = begin("dbus-daemon", "--session", "--nofork", "--print-address").stdout
        patch.setenv("DBUS_SESSION_BUS_ADDRESS", bus.readline().strip())
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(home))
        patch.setenv("GNOME_ACCESSIBILITY", "1")
        begin("openbox")
        begin("orca", "--replace")
        late = time.monotonic() + 60
        while "Screen reader on" not in heard.read_text() and time.monotonic() < late:
            time.sleep(0.2)
        if not heard.read_text():
            pytest.skip("Orca does not start here")
        yield heard


@pytest.fixture(scope="module", params=["firefox", "chromium"])
def desk(request: pytest.FixtureRequest, screen: Path) -> Iterator[Desk]:
    from playwright.sync_api import sync_playwright

    options: dict[str, Any] = {"args": [*FLAGS, "--force-renderer-accessibility"]}
    if request.param == "firefox":
        options = {"firefox_user_prefs": {"accessibility.force_disabled": -1}}
        options["channel"] = "moz-firefox"
    names = FIREFOX if request.param == "firefox" else CHROMIUM
    options["executable_path"] = next(filter(None, map(shutil.which, names)))
    with sync_playwright() as playwright, running(serve.Server("127.0.0.1", 0)) as server:
        browser = getattr(playwright, request.param).launch(headless=False, **options)
        yield Desk(test_access.Access(browser, server), screen)
        browser.close()


def test_a_program_is_heard(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By keys alone: it is run and trained, and its controls and its pad are used."""
    program = {**test_access.PAD, "controls": [SLIDER.spec()]}
    case = test_access.Case(test_access.FRAME.replace("eager", "click"), "", program)
    monkeypatch.setitem(test_access.ALL, "heard", case)
    desk.page.show("heard")
    desk.hears("Finished loading A page")
    subprocess.run(["xdotool", *"mousemove 600 900 click 1".split()], check=True)  # into the page
    desk.keys("Tab")
    desk.hears("Run this program push button", once=False)
    desk.keys("space")
    desk.hears("Ready: the network knows nothing yet. Press Train")
    desk.keys("space")
    desk.hears("Done after 60 steps in 1.2 s: 90.0 % of unseen data are right")
    desk.keys("Tab", "space")
    desk.hears("Step push button", "Done after 1 step")
    desk.page.run("every('input[type=range]')[0].focus()")
    desk.hears("Learning rate slider 0.05")
    desk.page.run("every('pf-pad')[0].shadowRoot.querySelector('canvas').focus()")
    desk.hears("Drawing pad canvas 50 across, 25 down")
    desk.keys("Down")
    desk.hears("50 across, 28 down")
    desk.keys("Down")
    desk.hears("50 across, 31 down")
    desk.keys("space")
    desk.page.page.wait_for_timeout(3000)
    desk.keys("Down")  # with which Chromium tells what came meanwhile
    desk.hears("Pen down: the arrow keys draw", "dog, 15 %", "50 across, 34 down")
    desk.page.run("() => { self.hear('error', { message: 'KeyError: odd' }); }")
    desk.hears("Error: KeyError: odd")
