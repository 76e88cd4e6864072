"""The studio as one uses it: solve, see an error at its place, cancel, reload; and whom it refuses."""

import http.client
import os
import re
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest

import flm

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install uvicorn starlette")
PATIENCE = 90_000  # milliseconds for a solve on a busy machine


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """The address of a studio, and its folder."""
    folder = tmp_path_factory.mktemp("studio")
    command = [sys.executable, "-m", "flm", "studio", str(folder), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    ) as process:
        address = re.search(r"http://\S+", process.stdout.readline()).group()
        for _ in range(100):
            try:
                http.client.HTTPConnection(urlsplit(address).netloc).connect()
                break
            except OSError:
                time.sleep(0.1)
        yield address, folder
        process.terminate()


def expect(place):
    return pytest.importorskip("playwright.sync_api").expect(place)


def write(page, text):
    page.fill("#text", text)
    expect(page.locator("#kept")).to_have_text("kept", timeout=PATIENCE)


def state(page, word):
    expect(page.locator("#state")).to_have_attribute("data-state", word, timeout=PATIENCE)


@pytest.mark.browser
def test_it_solves_marks_errors_cancels_and_survives_a_reload(studio, opened):
    address, folder = studio
    page = opened(address)
    page.click("nav button:text-is('pde')")
    expect(page.locator("#kept")).to_have_text("kept", timeout=PATIENCE)
    text = page.input_value("#text")
    assert (folder / "my-pde.toml").read_text() == text

    write(page, text.replace("alpha * u_xx", "alpha * sinn(u_xx)"))
    expect(page.locator("#error")).to_contain_text("sinn", timeout=PATIENCE)
    line = int(page.get_attribute("#error", "data-line"))
    column = int(page.get_attribute("#error", "data-column"))
    wrong = page.input_value("#text").splitlines()[line - 1]
    assert wrong[column - 1 :].startswith("sinn")
    assert page.text_content(".editor mark") == "sinn"

    write(page, text)
    expect(page.locator("#error")).to_have_text("", timeout=PATIENCE)
    page.select_option("#tol", "1e-4")
    page.click("#solve")
    state(page, "done")
    figure = page.frame_locator("#answer").locator("figure.answer")
    figure.wait_for()
    value = figure.evaluate("f => f.live.value([0.5, 0.25])")
    solution = flm.load(folder / "flm-my-pde" / "model.safetensors")
    assert abs(value - float(solution(x=0.5, t=0.25))) < 1e-9 * abs(value)
    saved = ["TOML", "page", "safetensors", "record", "table", "Python"]
    assert page.locator("#files a").all_text_contents() == saved
    expect(page.locator("#state")).to_contain_text("my-pde: converged: the error estimate")
    assert page.locator("#steps li").all_text_contents()
    assert not any("PhaseSeries" in step for step in page.locator("#steps li").all_text_contents())

    page.reload()
    expect(page.locator("#text")).to_have_value(text, timeout=PATIENCE)
    assert page.input_value("#name") == "my-pde.toml"
    expect(page.locator("#answer")).to_be_visible(timeout=PATIENCE)  # the answer is there again, as the text is

    hard = (
        '[domain]\nx = [0, 1]\ny = [0, 1]\nt = [0, 1]\n[equation]\na = "u_t = 0.001 * (u_xx + u_yy) + u * (1 - u**2)"\n'
    )
    hard += '[conditions]\n"t=0" = "u = sin(37*x) * sin(41*y)"\nboundary = "u = 0"\n'
    page.fill("#name", "hard.toml")
    write(page, hard)
    page.select_option("#tol", "1e-10")
    page.click("#solve")
    state(page, "running")
    page.click("#cancel")
    expect(page.locator("#whose")).to_have_text(
        "Below is the earlier answer to my-pde.toml.", timeout=PATIENCE
    )  # not to what is asked
    state(page, "canceled")
    assert not children(folder)
    assert page.is_enabled("#solve")
    assert page.complaints == []
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def children(folder):
    """Processes of the studio's work that are still there."""
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if "-m flm" in line and "hard.toml" in line]


@pytest.mark.slow
def test_it_refuses_strangers(studio):
    address, folder = studio
    netloc, query = urlsplit(address).netloc, urlsplit(address).query

    def status(path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(netloc, timeout=30)
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    good = f"/api/listing?{query}"
    assert status(good) == 200
    assert status("/api/listing") == 403
    assert status("/api/listing?token=guess") == 403
    assert status("/") == 403
    assert status(good, Host="evil.example") == 403
    assert status(good, Origin="http://evil.example") == 403
    assert status(good, Origin="null") == 403
    assert status(f"/api/keep?{query}", "POST", b"{}", Origin="http://evil.example") == 403
    outside = b'{"name": "../outside.toml", "text": ""}'
    assert status(f"/api/keep?{query}", "POST", outside) == 400
    assert not (folder.parent / "outside.toml").exists()
    (folder / "link.toml").symlink_to("/etc/hostname")
    assert status(f"/api/text?kind=files&name=link.toml&{query}") == 400
    assert status(f"/answer/my-pde.toml/..%2Fmy-pde.toml?{query}") == 404
    assert status(f"/api/keep?{query}", "POST", b"x" * 21_000_000) == 403
