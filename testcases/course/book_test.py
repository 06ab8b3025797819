"""The book: it builds without a warning, refuses what is broken, and reads and moves in a real browser, offline."""

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from solutions.lesson01_masked_sequences import masked_mean
from solutions.lesson03_policy_gradient import leave_one_out_baseline
from solutions.lesson04_gae import compute_response_gae, td_errors
from solutions.lesson05_ppo_loss import compute_ppo_loss
from solutions.lesson06_kl_rewards import estimate_kl
from solutions.lesson08_rollout import sample_token
from solutions.lesson13_after_ppo import group_advantages
from testcases.course.browser_test import QUIET
from testcases.course.students import HANGS
from testcases.harness.catalog import ROOT
from tiny_models.checkpoints import one_response

MISSING = [name for name in ("sphinx", "playwright", "axe_playwright_python") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("book"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; make book installs them"),
]
FLAGS = [*QUIET, "--process-per-site", "--disable-features=BackForwardCache", "--disable-threaded-compositing"]
PHONE, DESK = {"width": 400, "height": 200}, {"width": 1400, "height": 900}
ROUNDS = 40
"""Settings drawn for each playground, besides all combinations of ends."""
PROBED = {
    "light": ("tutorial/README", "notebooks/07_actor_critic", "book/playgrounds/04_credit", "search"),
    "dark": ("CONTRIBUTING", "book/playgrounds/01_masks"),
}
"""The check takes seconds on a long page, so it reads one of each kind."""


def build(
    source: Path, out: Path, builder: str = "html", *more: str, language: str = ""
) -> subprocess.CompletedProcess[str]:
    options = ["-W", "-q", "-b", builder, "-c", str(ROOT / "book"), *more]
    command = [sys.executable, "-m", "sphinx", *options, str(source), str(out)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "BOOK_LANGUAGE": language}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("book")
    subprocess.run([sys.executable, "-m", "book.stage"], cwd=ROOT, check=True)
    built = build(ROOT, out)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        context = launched.new_context()
        context.set_default_timeout(1000 * HANGS)
        yield context
        launched.close()


@pytest.fixture(scope="module")
def playground(book: Path, browser: Any) -> Callable[[str], Any]:
    """The page with this playground, opened once for all tests."""

    @cache
    def opened(name: str) -> Any:
        page = browser.new_page()
        page.set_viewport_size(DESK)
        page.goto((book / "book" / "playgrounds" / f"{name}.html").as_uri())
        return page

    return opened


TITLE = {"cell_type": "markdown", "metadata": {}, "source": ["# Title"], "id": "a"}
CODE = {"cell_type": "code", "metadata": {}, "source": ["1"], "outputs": [], "execution_count": None, "id": "b"}
KERNEL = {"name": "python3", "display_name": "", "language": "python"}
NOTEBOOK = {"cells": [TITLE, CODE], "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}
FAULTS = {
    "README.md": "# Course\n\nA [heading](tutorial/lesson04_gae/README.md#renamed) that was renamed.\n",
    "tutorial/lesson04_gae/README.md": """# Lesson

A [link](../nowhere.md) that leads nowhere, and [a heading](#nothing) that is not there.

![](figure.svg)

A formula $\\frob{x}$ and another $\\frac{1}{2$.

This was unheardof#12, by <student>.

#### Too deep

<details><summary>`code`</summary></details>

One more factor `gamma
* lam` for each step.
""",
    "notebooks/04_gae.ipynb": json.dumps(NOTEBOOK),
}


def test_what_is_broken_fails_the_build_and_is_named_with_file_and_line(tmp_path: Path) -> None:
    for name, text in FAULTS.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "source" / "tutorial" / "lesson04_gae" / "figure.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"/>'
    )
    built = build(tmp_path / "source", tmp_path / "out", "dummy")  # reads and resolves, writes nothing
    assert built.returncode != 0
    text, notebook = "lesson04_gae/README.md:{}: ", "04_gae.ipynb:1: "
    for line, reason in (
        (3, "../nowhere.md"),
        (3, "nothing"),
        (5, "without alternative text"),
        (7, r"\\frob"),
        (7, "braces that match"),
        (9, "unheardof"),
        (9, "<student> is no HTML"),
        (11, "header level"),
        (13, "write <code>"),
        (15, "without its other"),
    ):
        said = [warning for warning in built.stderr.splitlines() if text.format(line) in warning]
        assert any(reason in warning for warning in said), f"line {line}, {reason}:\n{built.stderr}"
    assert f"{notebook}WARNING: a notebook without outputs" in built.stderr
    assert re.search(r"source/README.md:3: WARNING: .*'renamed'", built.stderr)


def test_every_page_opens_on_a_phone_without_another_host_an_error_or_a_sideways_scroll(
    book: Path, browser: Any
) -> None:
    page, asked, errors, wide = browser.new_page(), [], [], []
    page.set_viewport_size(PHONE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: errors.append(f"not found: {request.url}"))
    page.on("pageerror", lambda error: errors.append(f"{page.url}: {error}"))
    pages = sorted(book.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        page.goto(path.as_uri())
        # The theme lets the text itself scroll, so the width of the page says nothing about it.
        if page.evaluate("['html', '.content'].some(box => document.querySelector(box).scrollWidth > innerWidth)"):
            wide.append(path.relative_to(book).as_posix())
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert errors == []
    assert wide == []


def test_on_a_phone_the_type_of_a_figure_is_readable(book: Path, browser: Any) -> None:
    """The smallest type has 8 points: 11 pixels where an inch has 100 (of an SVG 96, of a stored picture 180)."""
    drawings = [*(ROOT / "book/figures").glob("*.py"), *(ROOT / "notebooks/figures").glob("*.py")]
    sizes = [float(size) for path in drawings for size in re.findall(r"(?:font|label)size=([\d.]+)", path.read_text())]
    assert len(sizes) > 60 and min(sizes) >= 8
    page = browser.new_page()
    page.set_viewport_size(PHONE)
    for name in ("tutorial/lesson04_gae/README", "tutorial/lesson13_after_ppo/README", "notebooks/10_bug_hunt"):
        page.goto((book / f"{name}.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        page.wait_for_function("[...document.images].every(image => image.complete)")
        inches = page.evaluate(
            """[...document.querySelectorAll('article img')].filter(image => image.offsetWidth).map(image =>
                image.offsetWidth / image.naturalWidth * (image.closest('.cell_output') ? 180 : 96))"""
        )
        assert inches and min(inches) > 99, name
    page.close()


@pytest.mark.parametrize(
    "words, first",
    [
        ("importance ratio", "tutorial/lesson05"),
        ("TD error", "tutorial/lesson04"),
        ("key-value cache", "tutorial/lesson08"),
        ("verifiable", "tutorial/"),
        ("GRPO", "tutorial/"),
    ],
)
def test_search_shows_the_lesson_of_a_term_first(book: Path, browser: Any, words: str, first: str) -> None:
    page = browser.new_page()
    page.goto((book / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
    page.wait_for_selector("#search-results li a")
    page.wait_for_function("document.querySelector('#search-results').textContent.includes('Search finished')")
    href = page.evaluate("document.querySelector('#search-results li a').getAttribute('href')")
    page.close()
    assert href.startswith(first), href


@pytest.mark.smoke
def test_text_notebook_playground_and_reference_of_a_lesson_link_to_each_other(book: Path) -> None:
    from book.navigation import KINDS, LESSON

    about: dict[str, set[Path]] = {}
    for path in book.rglob("*.html"):
        if match := LESSON.match(path.relative_to(book).as_posix()):
            about.setdefault(match[1], set()).add(path)
    assert about.pop("00")  # one screen: a text alone
    assert len(about) == 13 and max(map(len, about.values())) == len(KINDS)
    for pages in about.values():
        for path in pages:
            links = re.findall(r'href="([^"#:]+)', path.read_text("utf-8").partition("<article")[2])
            missing = pages - {path} - {(path.parent / link).resolve() for link in links}
            assert not missing, f"{path} has no link to {missing}"


@pytest.mark.parametrize("scheme", PROBED)
def test_pages_pass_the_accessibility_check(book: Path, browser: Any, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(DESK)
    found = []
    for name in PROBED[scheme]:
        page.goto((book / f"{name}.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
        results = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{name}: {one['id']}: {node['html'][:200]}" for one in results for node in one["nodes"]]
    page.close()
    assert found == []


def test_answers_and_controls_work_by_keyboard(playground: Callable[[str], Any]) -> None:
    page = playground("05_clip")
    page.locator("article summary").first.press("Enter")
    assert page.locator("article details").first.get_attribute("open") is not None
    for path in sorted((ROOT / "book" / "playgrounds").glob("[0-9]*.md")):
        name = path.stem
        page = playground(name)
        for control in page.locator("input[type=range]").all()[:2]:
            for key, end in (("Home", "min"), ("End", "max")):
                control.press(key)
                state = page.evaluate("document.querySelector('.playground').playground.state")
                value = state[control.get_attribute("name")]
                assert value == pytest.approx(float(control.get_attribute(end))), f"{name}: {key}"
        page.get_by_role("button", name="Reset").press("Enter")
        assert page.locator(".playground .sentence").inner_text()


def settings(page: Any, seed: int) -> list[dict[str, float]]:
    """All combinations of the ends of the first four controls, and settings drawn within the controls' ranges."""
    ranges = page.evaluate("[...document.querySelectorAll('input[type=range]')].map(i => [i.name, +i.min, +i.max])")
    draw = random.Random(seed)
    drawn = [{name: draw.uniform(low, high) for name, low, high in ranges} for _ in range(ROUNDS)]
    few = ranges[:4]
    names = [name for name, *_ in few]
    ends = [dict(zip(names, chosen, strict=True)) for chosen in product(*(both for _, *both in few))]
    each = [{name: end} for name, *both in ranges for end in both]
    return drawn + [draw.choice(drawn) | some for some in ends + each]


def asked(page: Any, function: str, arguments: list[list[Any]]) -> list[Any]:
    return page.evaluate(f"arguments => arguments.map(some => arithmetic.{function}(...some))", arguments)


def close(got: Any, wanted: torch.Tensor | list[float]) -> None:
    torch.testing.assert_close(
        torch.tensor(got, dtype=torch.float64),
        torch.as_tensor(wanted, dtype=torch.float64),
        rtol=0,
        atol=1e-6,
        equal_nan=True,
    )


def row(numbers: list[float]) -> torch.Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def test_credit_is_that_of_lesson_4(playground: Callable[[str], Any]) -> None:
    page = playground("04_credit")
    chosen = settings(page, 4)
    count = len(one_response()["tokens"])
    values = [[one[f"value_{t}"] for t in range(count)] for one in chosen]
    rewards = [[0.0] * (count - 1) + [one["score"]] for one in chosen]
    given = [[r, v, one["gamma"], one["lam"]] for r, v, one in zip(rewards, values, chosen, strict=True)]
    for got, (r, v, gamma, lam) in zip(asked(page, "compute_gae", given), given, strict=True):
        mask = torch.ones(1, count, dtype=torch.bool)
        right = compute_response_gae(row(r), row(v), mask, gamma, lam)
        close(got["advantages"], right.advantages[0])
        close(got["returns"], right.returns[0])
        close(got["td_errors"], compute_response_gae(row(r), row(v), mask, gamma, 0.0).advantages[0])


@pytest.mark.smoke
def test_the_clipped_objective_is_that_of_lesson_5(playground: Callable[[str], Any]) -> None:
    page = playground("05_clip")
    given = [[one["ratio"], one["advantage"], one["clip_epsilon"]] for one in settings(page, 5)]
    for got, (ratio, advantage, epsilon) in zip(asked(page, "compute_ppo_loss", given), given, strict=True):
        log_probs = row([ratio]).log().requires_grad_()
        loss = compute_ppo_loss(log_probs, row([0.0]), row([advantage]), epsilon)
        close(got["loss"], loss.detach())
        if min(abs(ratio - 1 - epsilon), abs(ratio - 1 + epsilon)) > 1e-9:  # at the corner there is no derivative
            loss.backward()
            close(got["slope"], -log_probs.grad[0, 0])


def test_the_estimators_are_those_of_lesson_6(playground: Callable[[str], Any]) -> None:
    page = playground("06_estimators")
    weights = [[torch.tensor([one[f"{model}_{w}"] for w in range(4)]) for model in "pq"] for one in settings(page, 6)]
    given = [[(weight.double() / weight.sum()).tolist() for weight in pair] for pair in weights]
    for got, (p, q) in zip(asked(page, "estimate_kl", given), given, strict=True):
        for name in ("k1", "k2", "k3"):
            right = estimate_kl(row(p).log(), row(q).log(), name)[0]
            mean = (right * row(p)[0]).sum()
            close(got[name], right)
            close(got["mean"][name], mean)
            close(got["deviation"][name], (row(p)[0] * (right - mean) ** 2).sum().sqrt())


def test_a_group_is_that_of_lesson_13(playground: Callable[[str], Any]) -> None:
    page = playground("13_groups")
    given = [[[one[f"score_{i}"] for i in range(4)], one["epsilon"]] for one in settings(page, 13)]
    for got, (scores, epsilon) in zip(asked(page, "group_advantages", given), given, strict=True):
        close(got["grpo"], group_advantages(row(scores), epsilon)[0])
        close(got["dr_grpo"], group_advantages(row(scores), divide_by_std=False)[0])
        close(got["rloo"], (row(scores) - leave_one_out_baseline(row(scores)))[0])


def test_sampling_is_that_of_lesson_8(playground: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    page = playground("08_sampling")
    logits = page.evaluate("Object.values(VOCABULARY)")
    given = [[logits, one["temperature"], round(one["top_k"]), one["top_p"]] for one in settings(page, 8)]
    drawn_from: list[torch.Tensor] = []
    token = torch.zeros(1, 1, dtype=torch.int64)
    monkeypatch.setattr(torch, "multinomial", lambda probabilities, *_, **__: drawn_from.append(probabilities) or token)
    for got, (_, temperature, top_k, top_p) in zip(asked(page, "sampling_distribution", given), given, strict=True):
        sample_token(row(logits), temperature, top_k, top_p)
        close(got, drawn_from[-1][0])


@pytest.mark.parametrize("way", ["multiply", "choose", "fill"])
def test_masks_are_those_of_lesson_1(playground: Callable[[str], Any], way: str) -> None:
    page = playground("01_masks")
    log_ratios = page.evaluate("LOG_RATIOS")
    given = []
    for real, padding in product(range(1, 7), (0.0, 3.0, float("inf"), float("nan"))):
        given.append([log_ratios[:real] + [padding] * (6 - real), [t < real for t in range(6)], way])
    for got, (numbers, real, _) in zip(asked(page, "mean_ratio", given), given, strict=True):
        x, mask = row(numbers).requires_grad_(), torch.tensor([real])
        if way == "multiply":
            mean = (x.exp() * mask).sum() / mask.sum()
        elif way == "choose":
            mean = torch.where(mask, x.exp(), 0.0).sum() / mask.sum()
        else:
            mean = masked_mean(x.masked_fill(~mask, 0.0).exp(), mask)
        mean.backward()
        close(got["mean"], mean.detach())
        close(got["gradient"], x.grad[0])


def test_over_optimization_shows_what_was_recorded(playground: Callable[[str], Any]) -> None:
    page = playground("12_overoptimization")
    recorded = json.loads((ROOT / "book" / "playgrounds" / "overoptimization.json").read_text("utf-8"))
    assert page.evaluate("recorded") == recorded
    for run, at in product((0, len(recorded["runs"]) - 1), (0, len(recorded["updates"]) - 1)):
        for name, value in (("run", run), ("at", at)):
            page.evaluate(f"document.querySelector('.playground').playground.set('{name}', {value})")
        shown = page.locator(".playground .sentence").inner_text().replace("\u2212", "-")
        numbers = recorded["runs"][run]
        assert f"gold {numbers['gold'][at] + 0.0:.2f}" in shown and f"proxy {numbers['proxy'][at]:.2f}" in shown, shown


def test_the_print_has_contents_with_page_numbers_and_refuses_what_is_too_wide_or_long(
    browser: Any, tmp_path: Path
) -> None:
    from pypdfium2 import PdfDocument

    from book import pdf

    page, out = browser.new_page(), tmp_path / "book.pdf"
    style = (ROOT / "book" / "static" / "print.css").read_text("utf-8")
    inside = '<span id="document-a"></span><section><h3>Second</h3><h4>Part</h4></section>'
    text = f"<style>{style}</style><h1>First</h1><details><summary>Q</summary>Folded</details>{inside}"
    page.set_content(text)
    assert pdf.make(page, out, "0.1", most=6) == 6
    printed = [" ".join(sheet.get_textpage().get_text_range().split()) for sheet in PdfDocument(out)]
    assert "Preface 3 First 4 Second 5 Part 5 Answers 6" in printed[1]
    assert "Q Answer 1" in printed[3] and "Second Part" in printed[4]
    assert not any("Folded" in text for text in printed[:5]) and "1. Q Folded" in printed[5], "answers are at the end"
    page.set_content(text)
    with pytest.raises(pdf.Unfit, match="at most 5 pages, got 6"):
        pdf.make(page, tmp_path / "long.pdf", "0.1", most=5)
    assert not (tmp_path / "long.pdf").exists()
    page.set_content(text + "<table><tr><td style='min-width: 900px'>numbers</td></tr></table>")
    with pytest.raises(pdf.Unfit, match="<table> numbers"):
        pdf.make(page, out, "0.1")
    page.close()


def test_the_playground_of_credit_gives_it_to_the_word_of_praise() -> None:
    """`values[t]` is the estimate before word t, so a word that raises it is followed by the higher value."""
    text = (ROOT / "book/static/playgrounds/playgrounds.js").read_text("utf-8")
    words, values = (
        json.loads(re.search(rf"^const {name} = (\[.*?\]);", text, re.M)[1]) for name in ("WORDS", "VALUES")
    )
    rewards = torch.tensor([0.0] * (len(words) - 1) + [1.0])
    errors = td_errors(rewards, torch.tensor([*values, 0.0]), rewards, gamma=1.0)
    assert words[errors.argmax()] == "superb"


@pytest.fixture(scope="module")
def catalogues(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from book.translate import NOTEBOOKS, PATH

    out = tmp_path_factory.mktemp("catalogues")
    pages = ",".join([*PATH, *(f"notebooks/{name}.ipynb" for name in NOTEBOOKS)])
    build(
        ROOT, out, "gettext", "--keep-going", "-D", f"include_patterns={pages}"
    )  # of links to other pages it complains
    return out


def test_the_translation_is_that_of_todays_texts(catalogues: Path) -> None:
    from book.translate import problems

    if found := problems("zh_CN", catalogues):
        pytest.fail("\n".join(found) + "\nSee CONTRIBUTING.md, Another language.", pytrace=False)


def test_what_is_stale_in_a_translation_is_named(catalogues: Path, tmp_path: Path) -> None:
    from book.translate import problems

    texts = (catalogues / "book.pot").read_text("utf-8")
    changed = texts.replace("its TD error is 0.08. Will its", "its TD error is 0.09. Will its")
    (tmp_path / "book.pot").write_text(
        f'{changed}\n#: {os.path.relpath(ROOT, catalogues)}/README.md:1\nmsgid "The critic has 7 values"\nmsgstr ""\n'
    )
    (tmp_path / "sphinx.pot").write_text((catalogues / "sphinx.pot").read_text("utf-8"), "utf-8")
    gone, new, stale = sorted(problems("zh_CN", tmp_path))
    assert "The critic has" in new + stale and "is not translated" in new and "is not translated" in stale
    assert "The critic saw nothing wrong" in gone and "no text has it any more" in gone


def test_a_translation_keeps_the_numbers_the_code_and_the_terms() -> None:
    from babel.messages.catalog import Message

    from book.translate import faults, terms

    message, known = Message("The critic gives `values` of 0.5 to a group"), terms()
    right = Message(message.id, "评论家给一组 0.5 的 `values`")
    assert faults(message, right, known) == []
    wrong = Message(message.id, "1. 批评者给 0.6 的 values")
    said = " ".join(faults(message, wrong, known))
    assert all(one in said for one in ("0.5", "`values`", "评论家", "组", "begins as a list"))
    wrong.user_comments.append("plain: group")
    assert "组" not in " ".join(faults(message, wrong, known))


def test_a_translations_figures_are_drawn_once_and_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from book import translate, translation

    monkeypatch.setattr(translation, "DRAWN", tmp_path)
    monkeypatch.setattr(translate, "PATH", ("README.md",))
    monkeypatch.setattr(translate, "NOTEBOOKS", ("06_kl_rewards",))
    translate.draw_what_is_stale("zh_CN")
    drawn = {path.relative_to(tmp_path / "zh_CN").as_posix() for path in tmp_path.rglob("*.*g")}
    assert drawn == set(translate.stamps()) and len(drawn) == 7
    english = translate.cells_of("06_kl_rewards")
    chinese = translation.with_figures(translate.cells_of("06_kl_rewards"), "zh_CN", "06_kl_rewards")
    for own, other in zip(*map(translation.stored_figures, (english, chinese)), strict=True):
        assert own["image/png"] != other["image/png"]
    monkeypatch.setattr(translate, "draw", None)
    translate.draw_what_is_stale("zh_CN")


def test_a_translation_shows_and_finds_chinese(browser: Any, tmp_path: Path) -> None:
    """Texts, questions of folds and tables; the search answers, with Chinese and with Latin words."""
    from book import chinese

    pages = "README.md,tutorial/README.md,tutorial/glossary.md,tutorial/lesson00_one_screen/*.md,notebooks/04_gae.ipynb"
    options = ("--keep-going", "-D", f"include_patterns={pages}")
    built = build(ROOT, tmp_path, "html", *options, language="zh_CN")
    assert "inconsistent" not in built.stderr
    page, errors = browser.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name, words in (
        ("notebooks/04_gae", "答案与观察要点"),
        ("notebooks/04_gae", "1. 一条回复"),
        ("README", "五条路径"),
    ):
        page.goto((tmp_path / f"{name}.html").as_uri())
        shown = page.evaluate("document.querySelector('article').textContent")
        assert words in shown and not chinese.missing(shown)
    for words, first in (("优势", "notebooks/04_gae"), ("奖励黑客", "tutorial/"), ("policy", "")):
        page.goto((tmp_path / "search.html").as_uri() + f"?q={words}")
        page.wait_for_selector("#search-results li a")
        assert page.evaluate("document.querySelector('#search-results li a').getAttribute('href')").startswith(first)
    assert not [error for error in errors if "Failed to fetch" not in error]  # summaries, which a file may not ask for
    page.close()
