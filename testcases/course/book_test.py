"""The book: it builds without a warning, names what is broken, and reads and moves in a real browser, offline."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from book.playgrounds import RECORDED
from solutions.lesson01_masked_sequences import masked_mean
from solutions.lesson03_policy_gradient import leave_one_out_baseline
from solutions.lesson04_gae import compute_response_gae
from solutions.lesson05_ppo_loss import compute_ppo_loss
from solutions.lesson06_kl_rewards import estimate_kl
from solutions.lesson08_rollout import sample_token
from solutions.lesson13_after_ppo import group_advantages
from testcases.course.students import HANGS
from testcases.harness.catalog import ROOT

MISSING = [name for name in ("sphinx", "playwright", "axe_playwright_python") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; make book installs them"),
]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --process-per-site --disable-features=BackForwardCache "
    "--disable-threaded-compositing"
).split()
PHONE, DESK = {"width": 400, "height": 200}, {"width": 1400, "height": 900}


def build(source: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", str(ROOT / "book"), str(source), str(out)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from book.stage import stage

    out = tmp_path_factory.mktemp("book")
    stage()
    built = build(ROOT, out)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium without a stored profile, whose pages wait as long as a busy machine needs."""
    from playwright.sync_api import Error, sync_playwright

    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH; Debian: apt install chromium; macOS: brew install --cask chromium")
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        except Error as error:
            pytest.skip(f"{CHROMIUM} does not start here: {error.message.splitlines()[-1]}")
        context = started.new_context()
        context.set_default_timeout(1000 * HANGS)
        yield context
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty one."""
    opened = browser.new_page()
    yield opened
    opened.close()


FAULTY = """async () => {
    await window.MathJax?.startup?.promise;
    await document.fonts.ready;  // a page that is left earlier calls its fonts not found
    const found = [], all = (selector, fault, is = () => true) =>
        found.push(...[...document.querySelectorAll(selector)].filter(is).map(node => fault(node)));
    // The theme lets the text itself scroll, so the width of the page says nothing about it.
    all("html, .content", node => `${node.tagName} scrolls sideways`, node => node.scrollWidth > innerWidth);
    all("mjx-merror, .math [style*='color: red']", node => `no formula: ${node.closest('.math').textContent}`);
    all("article .math", node => `not typeset: ${node.textContent}`, node => !node.querySelector("mjx-math"));
    all("article img", node => `no alternative text: ${node.src}`, node => !node.alt.trim());
    all("article *", node => `no HTML: <${node.localName}>`, node => node instanceof HTMLUnknownElement);
    all("article h1 ~ * h1, article section ~ section > h1", node => `a second title: ${node.textContent}`);
    const texts = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const {parentElement, textContent} = texts.currentNode, code = parentElement.closest("code, pre, script");
        if (textContent.includes("`") && !code) found.push(`a backtick: ${textContent}`);
    }
    return found;
}"""
"""What is wrong with an open page."""
TEXTS = {
    "README.md": "# The first page is book/welcome.md instead\n",
    "tutorial/README.md": "# Course\n\nA [heading](lesson04_gae/README.md#renamed) that was renamed.\n",
    "tutorial/lesson04_gae/README.md": """# Lesson

A [link](../nowhere.md) that leads nowhere, and [a heading](#nothing) that is not there.

![Two lines](figure.svg) ![](seen.svg)

This was unheardof#12, by <student>.

A formula $\\frob{x}$ and another $\\frac{1}{2$.

One more factor `gamma
* lam` for each step.

# Another lesson
""",
    "tutorial/lesson04_gae/seen.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
}


def test_what_is_broken_is_named_by_the_build_with_its_line_or_by_the_test_of_all_pages(
    page: Any, tmp_path: Path
) -> None:
    for name, text in TEXTS.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    built = build(tmp_path / "source", tmp_path / "out")
    assert built.returncode != 0
    for line, reason in ((3, "../nowhere.md"), (3, "nothing"), (5, "figure.svg"), (7, "unheardof")):
        said = [warning for warning in built.stderr.splitlines() if f"lesson04_gae/README.md:{line}: " in warning]
        assert any(reason in warning for warning in said), f"line {line}, {reason}:\n{built.stderr}"
    assert re.search(r"source/tutorial/README.md:3: WARNING: .*'renamed'", built.stderr)
    page.goto((tmp_path / "out" / "tutorial/lesson04_gae/README.html").as_uri())
    found = page.evaluate(FAULTY)
    for fault in (
        r"no formula: \frob",
        r"not typeset: \(\frac{1}{2",
        "alternative text",
        "<student>",
        "second title",
        "a backtick",
    ):
        assert any(fault in one for one in found), f"{fault}: {found}"


def test_every_page_opens_on_a_phone_without_another_host_an_error_or_a_sideways_scroll(book: Path, page: Any) -> None:
    asked, found = [], {}
    page.set_viewport_size(PHONE)
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: found.setdefault(page.url, []).append(f"not found: {request.url}"))
    page.on("pageerror", lambda error: found.setdefault(page.url, []).append(str(error)))
    pages = sorted(book.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        page.goto(path.as_uri())
        if faults := page.evaluate(FAULTY):
            found[path.relative_to(book).as_posix()] = faults
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert found == {}


@pytest.mark.parametrize("words, first", [("TD error", "tutorial/lesson04"), ("verifiable", "tutorial/")])
def test_search_shows_the_lesson_of_a_term_first(book: Path, page: Any, words: str, first: str) -> None:
    page.goto((book / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
    page.wait_for_selector("#search-results li a")
    finished = "document.querySelector('#search-results').textContent.includes('Search finished')"
    page.wait_for_function(finished, polling=100)  # by time, since a window that nobody sees may draw no frame
    href = page.evaluate("document.querySelector('#search-results li a').getAttribute('href')")
    assert href.startswith(first), href


@pytest.mark.smoke
def test_a_lesson_leads_to_its_other_pages_its_issues_its_terms_and_its_names(book: Path) -> None:
    about: dict[str, set[Path]] = {}
    for pattern in ("tutorial/lesson*/*", "notebooks/*", "book/playgrounds/*", "book/made/*"):
        for path in book.glob(f"{pattern}.html"):
            if number := re.search(r"(?:lesson|/)(\d\d)_", path.as_posix()):
                about.setdefault(number[1], set()).add(path)
    assert len(about) == 14 and max(map(len, about.values())) == 6
    for pages in about.values():
        for path in pages:
            links = re.findall(r'href="([^"#:]+)', path.read_text("utf-8").partition("<article")[2])
            missing = pages - {path} - {(path.parent / link).resolve() for link in links}
            assert not missing, f"{path} has no link to {missing}"
    text = (book / "tutorial/lesson05_ppo_loss/README.html").read_text("utf-8")
    assert 'href="https://github.com/DLR-RM/stable-baselines3/issues/127">stable-baselines3#127</a>' in text
    assert 'href="../../book/made/reference_lesson05_ppo_loss.html#compute_ppo_loss"' in text
    term = re.search(r'href="../glossary.html#(term-[\w-]+)" title="[^"]', text)
    glossary = (book / "tutorial/glossary.html").read_text("utf-8")
    row = glossary.partition(f'id="{term and term[1]}"')[2].partition("</tr>")[0]
    assert 'lang="zh"' in row and 'README.html">' in row


@pytest.mark.parametrize(
    "scheme, names",
    [
        ("light", ("tutorial/lesson09_ppo_trainer/README", "notebooks/13_after_ppo")),
        ("dark", ("book/playgrounds/04_credit", "search")),
    ],
)
def test_pages_pass_the_accessibility_check(book: Path, page: Any, scheme: str, names: tuple[str, ...]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(DESK)
    found = []
    for name in names:
        page.goto((book / f"{name}.html").as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
        page.evaluate("window.MathJax?.startup?.promise")
        results = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        found += [f"{name}: {one['id']}: {node['html'][:200]}" for one in results for node in one["nodes"]]
    assert found == []


@pytest.fixture(scope="module")
def arithmetic(book: Path, browser: Any) -> Iterator[Any]:
    """Asks a function of the playgrounds' arithmetic, which every page of a playground holds."""
    page = browser.new_page()
    page.goto((book / "book" / "playgrounds" / "12_overoptimization.html").as_uri())
    yield lambda function, *arguments: page.evaluate(f"given => arithmetic.{function}(...given)", arguments)
    page.close()


def close(got: Any, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(torch.tensor(got, dtype=torch.float64), wanted, rtol=0, atol=1e-6, equal_nan=True)


def row(numbers: list[float]) -> torch.Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def test_credit_is_that_of_lesson_4(arithmetic: Any) -> None:
    rewards, values = [0.0, 0.0, 0.0, 1.5], [0.3, -0.2, 0.9, 0.4]
    for gamma, lam in ((1.0, 0.95), (0.9, 0.5)):
        got, mask = arithmetic("compute_gae", rewards, values, gamma, lam), torch.ones(1, 4, dtype=torch.bool)
        right = compute_response_gae(row(rewards), row(values), mask, gamma, lam)
        close(got["advantages"], right.advantages[0])
        close(got["returns"], right.returns[0])
        close(got["td_errors"], compute_response_gae(row(rewards), row(values), mask, gamma, 0.0).advantages[0])


@pytest.mark.smoke
def test_the_clipped_objective_is_that_of_lesson_5(arithmetic: Any) -> None:
    for ratio, advantage in ((1.5, 1.0), (1.1, 1.0), (0.5, 1.0), (1.5, -2.0), (0.5, -2.0)):
        got = arithmetic("compute_ppo_loss", ratio, advantage, 0.2)
        log_probs = row([ratio]).log().requires_grad_()
        loss = compute_ppo_loss(log_probs, row([0.0]), row([advantage]), 0.2)
        loss.backward()
        close(got["loss"], loss.detach())
        close(got["slope"], -log_probs.grad[0, 0])


def test_the_estimators_are_those_of_lesson_6(arithmetic: Any) -> None:
    p, q = [0.5, 0.25, 0.125, 0.125], [0.1, 0.2, 0.3, 0.4]
    got = arithmetic("estimate_kl", p, q)
    for name in ("k1", "k2", "k3"):
        right = estimate_kl(row(p).log(), row(q).log(), name)[0]
        mean = (right * row(p)[0]).sum()
        close(got[name], right)
        close(got["mean"][name], mean)
        close(got["deviation"][name], (row(p)[0] * (right - mean) ** 2).sum().sqrt())


def test_a_group_is_that_of_lesson_13(arithmetic: Any) -> None:
    for scores, epsilon in (([1.0, 1.0, 1.0, 5.0], 0.0001), ([-1.0, 0.5, 2.0, 0.5], 1.0)):
        got = arithmetic("group_advantages", scores, epsilon)
        close(got["grpo"], group_advantages(row(scores), epsilon)[0])
        close(got["dr_grpo"], group_advantages(row(scores), divide_by_std=False)[0])
        close(got["rloo"], (row(scores) - leave_one_out_baseline(row(scores)))[0])


def test_sampling_is_that_of_lesson_8(arithmetic: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_from: list[torch.Tensor] = []
    token = torch.zeros(1, 1, dtype=torch.int64)
    monkeypatch.setattr(torch, "multinomial", lambda probabilities, *_, **__: drawn_from.append(probabilities) or token)
    logits = [2.0, 1.2, 0.3, -0.4, -1.5, -2.0]
    for temperature, top_k, top_p in ((1.0, 2, 1.0), (0.7, 0, 0.8)):
        sample_token(row(logits), temperature, top_k, top_p)
        close(arithmetic("sampling_distribution", logits, temperature, top_k, top_p), drawn_from[-1][0])


@pytest.mark.parametrize("way", ["multiply", "choose", "fill"])
def test_masks_are_those_of_lesson_1(arithmetic: Any, way: str) -> None:
    for padding in (3.0, float("nan")):
        numbers, real = [0.1, -0.2, 0.3, padding, padding], [True, True, True, False, False]
        got = arithmetic("mean_ratio", numbers, real, way)
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


def test_each_playground_draws_and_over_optimization_says_what_was_recorded(book: Path, page: Any) -> None:
    said = {}
    for path in sorted((book / "book" / "playgrounds").glob("[0-9]*.html")):
        page.goto(path.as_uri())
        said[path.stem] = page.locator(".playground .sentence").inner_text()
        assert said[path.stem] and page.locator(".playground table td").count(), path
    run = json.loads(RECORDED.read_text("utf-8"))["runs"][0]
    assert f"gold {run['gold'][-1]:.2f}, proxy {run['proxy'][-1]:.2f}" in said["12_overoptimization"].replace(
        "\u2212", "-"
    )
