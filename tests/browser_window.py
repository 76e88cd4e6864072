"""The system's Chromium, driven by Playwright; without one of them every test in it is skipped in one sentence."""

import shutil

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine: install Debian's package chromium")
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: pip install playwright"
    )
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Open an address in a window of some width; what the console says about errors is collected in `page.complaints`."""
    pages = []

    def show(address, width=1280, **options):
        page = chromium.new_page(viewport={"width": width, "height": 900}, **options)
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda message: page.complaints.append(message.text) if message.type == "error" else None)
        page.goto(address)
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
