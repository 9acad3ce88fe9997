"""The HTML page in a real browser, where one is installed: nothing requested, nothing wider than a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import test_reports as made

from inferproof.reports import page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next((found for name in ("chromium", "google-chrome", "chrome") if (found := shutil.which(name))), None)
OUTSIDE = """[...document.querySelectorAll('main *')].filter(e => !e.closest('.wide')
    && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=["en", "zh"])
def html(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    made._write(folder, request.param)
    file = folder / "page.html"
    file.write_text(page.page((folder / "report.md").read_text(encoding="utf-8"), folder, request.param), "utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_the_page_fits_and_asks_for_nothing(browser: Any, html: Path, width: int, scheme: str) -> None:
    shown = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    asked: list[str] = []
    said: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: said.append(message.text))
    shown.goto(html.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [html.as_uri()]
    assert said == []
    assert shown.evaluate("document.documentElement.scrollWidth") == width
    assert shown.evaluate(OUTSIDE) == []
    assert shown.evaluate("[...document.images].every(i => i.naturalWidth > 0)")
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 25, 29)"}[scheme]
    shown.close()


def test_a_link_of_the_contents_goes_to_its_heading(browser: Any, html: Path) -> None:
    shown = browser.new_page(viewport={"width": 375, "height": 800})
    shown.goto(html.as_uri())
    link = shown.locator("main ul a").last
    link.click()
    heading = shown.locator(":target")
    assert heading.inner_text() == link.inner_text()
    assert heading.bounding_box()["y"] < 800
    shown.close()
