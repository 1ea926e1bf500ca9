"""The live page in a browser: numbers change, the form answers, and everything works without JavaScript."""

import os
import random
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from running import example, new_model, new_regressor, number_example, running

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# A folder for screenshots, to look at them.
SCREENSHOTS = os.environ.get("BUDGETRON_SCREENSHOTS")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium")
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")


def is_error(message):
    # Chromium reports the answer to a form with a bad value, too.
    return message.type == "error" and "status of 422" not in message.text


@contextmanager
def browser_page(**options):
    """Open a browser; requests to another host than the service are errors, and so are script errors."""
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_context(**options).new_page()
        problems = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: problems.append(m.text) if is_error(m) else None)
        page.on(
            "request",
            lambda r: None if "//127.0.0.1:" in r.url or r.url == "data:," else problems.append(r.url),
        )
        yield page
        browser.close()
        assert not problems


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with running(folder, {"m": new_model("budget:memory=600kB")}) as found:
        for k in range(0, 600, 60):
            found.learn(*range(k, k + 60))
        found.predict(*range(20))
        yield found


def shot(page, name):
    if SCREENSHOTS:
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png", full_page=True)


def value(page, key):
    return page.locator(f'[data-key="{key}"]').inner_text()


def test_the_numbers_change_while_one_looks(service):
    with browser_page(viewport={"width": 1280, "height": 900}) as page:
        page.goto(service.url)
        waiting = value(page, "waiting-for-labels")
        assert waiting == f"{service.service.entries['m'].waiting.rows}"
        error = value(page, "overall-error")
        shot(page, "wide")
        service.predict(*range(7))
        # Labels that do not depend on the rows: the error rate must increase.
        coin = random.Random(0)
        send = [{"row": example(n)[0], "label": coin.choice(["no", "yes"])} for n in range(2000, 2500)]
        assert service.request("POST", "/models/m/learn", {"examples": send})[0] == 200
        page.wait_for_function(
            "([key, old]) => document.querySelector(`[data-key='${key}']`).innerText !== old",
            arg=["overall-error", error],
        )
        page.wait_for_function("() => document.querySelector('svg line.change') !== null")
        assert int(value(page, "waiting-for-labels")) == int(waiting) + 7
        shares = [float(text.removesuffix("%")) for text in page.locator(".share").all_inner_texts()]
        assert len(shares) == 7  # six experts, and all others together
        assert sum(shares) == pytest.approx(100, abs=0.5)
        assert "it holds." in page.locator(".certificate").inner_text()
        memory = page.locator('div:has(> [data-key="memory"]) .note').inner_text()
        assert re.fullmatch(r"of 32.6 MB: model .* kB of 6.. kB; waiting rows .* of 32 MB", memory.strip())
        shot(page, "changed")


def test_the_page_says_that_nothing_was_learned_yet(tmp_path):
    with running(tmp_path, {"m": new_model()}) as service, browser_page() as page:
        page.goto(service.url)
        assert page.get_by_text("no label was learned yet").count() == 3
        assert page.get_by_text("No certificate: nothing was learned yet.").count() == 1
        assert "no limit in bytes" in page.locator('div:has(> [data-key="memory"]) .note').inner_text()
        shot(page, "start")
        service.learn(*range(40))
        page.get_by_text("No certificate: the bounds of SecondOrderProjectron compare").wait_for()
        assert value(page, "recent-error").endswith("%")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
def test_a_row_is_tried_by_the_form(service, scripts):
    with browser_page(java_script_enabled=scripts) as page:
        page.goto(service.url)
        assert value(page, "recent-error").endswith("%")
        rows = service.service.entries["m"].waiting.next_row
        assert page.locator("noscript p").is_visible() != scripts  # to reload the page
        page.get_by_text("Try a row of m").click()
        for name, text in example(3)[0].items():
            page.get_by_label(name, exact=True).fill(str(text))
        page.get_by_role("button", name="Predict").click()
        answer = page.get_by_role("status")
        answer.wait_for()
        assert answer.inner_text().startswith("Prediction: ")
        assert page.get_by_label("colour", exact=True).input_value() == example(3)[0]["colour"]
        page.get_by_label("a", exact=True).fill("much")
        page.get_by_role("button", name="Predict").click() if scripts else page.get_by_role("button").click()
        page.get_by_text('column "a" has the text').wait_for()
        assert service.service.entries["m"].waiting.next_row == rows  # nothing waits for a label


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_a_phone(service, scheme):
    with browser_page(viewport={"width": 390, "height": 800}, color_scheme=scheme, is_mobile=True) as page:
        page.goto(service.url)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        page.get_by_text("Try a row of m").click()
        shot(page, f"phone-{scheme}")


def test_the_page_of_a_model_of_numbers(tmp_path):
    with running(tmp_path, {"n": new_regressor("budget:memory=600kB")}) as service, browser_page() as page:
        page.goto(service.url)
        assert page.get_by_text("no label was learned yet").count() == 3
        with service.client(model="n") as client:
            client.learn([number_example(n) for n in range(200)])
            shown = client.show()
        page.wait_for_function("() => document.querySelectorAll('.share').length === 7")
        for key, name in (
            ("overall-RMSE", "rmse"),
            ("recent-RMSE", "recent_rmse"),
            ("mean-absolute-error", "mae"),
        ):
            assert float(value(page, key)) == pytest.approx(shown[name], rel=1e-3)
        assert "RMSE of the last 1,000 labels" in page.locator("figcaption").inner_text()
        assert page.get_by_text("error rate").count() == 0
        page.get_by_text("Try a row of n").click()
        for name, text in number_example(3)[0].items():
            page.get_by_label(name, exact=True).fill(str(text))
        page.get_by_role("button", name="Predict").click()
        answer = page.get_by_role("status").inner_text()
        assert re.fullmatch(r"Prediction: -?\d.* · round 200", answer)
        shot(page, "numbers")


def test_the_page_needs_the_token(tmp_path):
    with running(tmp_path, {"m": new_model()}, token="correct-horse") as service, browser_page() as page:
        page.goto(service.url)
        assert page.url.endswith("/login")
        page.get_by_label("Token").fill("correct-horse")
        page.get_by_role("button").click()
        page.get_by_text("Try a row of m").wait_for()
        page.wait_for_function("() => document.getElementById('live').innerText.includes('recent error')")


def test_the_answer_to_a_form_is_in_sight(service):
    with browser_page(viewport={"width": 390, "height": 400}) as page:
        page.goto(service.url)
        page.get_by_text("Try a row of m").click()
        page.get_by_role("button", name="Predict").click()
        answer = page.get_by_role("status")
        answer.wait_for()
        top = answer.evaluate("element => element.getBoundingClientRect().top")
        assert 0 < top < 400


def test_the_page_says_when_the_service_does_not_answer(tmp_path):
    with browser_page() as page:
        note = page.get_by_text("The service does not answer.")
        with running(tmp_path, {"m": new_model()}) as service:
            page.goto(service.url)
            page.wait_for_function("() => document.getElementById('live').innerText.includes('recent error')")
            assert not note.is_visible()
            shown = page.locator("#live").inner_text()
        note.wait_for()
        assert page.locator("#live").inner_text() == shown  # the last numbers stay


def test_several_pages_show_the_same_update(service):
    with browser_page() as page:
        page.goto(service.url)
        other = page.context.new_page()
        other.goto(service.url)
        waiting = int(value(page, "waiting-for-labels"))
        service.predict(1, 2, 3)
        for one in (page, other):
            one.wait_for_function(
                "n => document.querySelector('[data-key=waiting-for-labels]').innerText === n",
                arg=f"{waiting + 3}",
            )


def test_names_and_values_are_escaped(tmp_path):
    nasty = '<img src=x onerror=alert(1)>"'
    model = new_model(columns={nasty: "number", "b": [nasty, "x"]}, classes=[nasty, "other"])
    with running(tmp_path, {"m": model}) as service:
        examples = [{"row": {nasty: i, "b": nasty}, "label": nasty} for i in range(40)]
        assert service.request("POST", "/models/m/learn", {"examples": examples})[0] == 200
        with browser_page() as page:
            page.goto(service.url)
            assert page.locator("img").count() == 0
            page.get_by_text("Try a row of m").click()
            page.get_by_label(nasty, exact=True).fill("1")
            page.get_by_role("button", name="Predict").click()
            page.get_by_role("status").wait_for()
            assert page.locator("img").count() == 0
            assert nasty in page.get_by_role("status").inner_text()
