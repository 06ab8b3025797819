"""Print the book: python -m book.pdf runs/book-pdf/README.html runs/ppo-by-hand.pdf.

Chromium sets the pages and writes the outline; a second printing has the page numbers of the first in its contents.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pypdfium2
from playwright.sync_api import sync_playwright

WIDTH = 658
"""Pixels between the margins of A4, where book/static/print.css sets them."""
PRINTINGS = 3
PREPARE = """() => {
    document.querySelectorAll("details").forEach(details => { details.open = true; });
    // What a reader should predict first stands at the end; the code that a page folds away is in the repository.
    document.querySelectorAll(".cell_input, .cell details.hide").forEach(code => code.remove());
    const answers = document.createElement("section");
    for (const fold of document.querySelectorAll("details")) {
        if (fold.closest("section[id^='hints-for']") || fold.parentElement.closest("details")) continue;
        const number = answers.children.length + 1, question = fold.querySelector("summary");
        const link = document.createElement("a");
        Object.assign(link, {href: `#answer-${number}`, textContent: `Answer ${number}`});
        const asked = /^(Answer|What to notice)/.test(question.textContent) ? "" : `${question.textContent} `;
        const place = document.createElement("p"), answer = document.createElement("div");
        place.append(asked, link);
        place.className = "to-answer";
        answer.id = `answer-${number}`;
        answer.className = "answer";
        question.remove();
        const label = Object.assign(document.createElement("strong"), {textContent: `${number}. ${asked}`});
        answer.append(label, ...fold.childNodes);
        fold.replaceWith(place);
        answers.append(answer);
    }
    document.querySelectorAll(".playground").forEach(root => {
        const instead = document.createElement("p");
        instead.append("(Here the site has a figure that moves.)");
        instead.className = "moves";
        root.replaceWith(instead);
    });
    // Small type reads better than lines that are broken: down to 6.5 points, where a line has 120 characters.
    for (const pre of document.querySelectorAll("pre")) {
        const longest = Math.max(...pre.textContent.split("\\n").map(line => line.length));
        const size = (pre.clientWidth - 22) / longest / 0.602 * 0.75;
        if (size < 8.4) pre.style.fontSize = `${Math.max(size, 6.5)}pt`;
    }
    for (const box of document.querySelectorAll("pre, details")) {
        if (box.offsetHeight < 300) box.style.breakInside = "avoid";
    }
    // A long table that moved to the next page would leave a page with a heading alone.
    for (const table of document.querySelectorAll("table")) {
        if (table.offsetHeight > 500) table.style.breakInside = "auto";
    }
    // Sphinx puts every page below the last section of the first one.
    for (const mark of document.querySelectorAll("span[id^='document-']")) {
        const page = mark.nextElementSibling, title = page?.querySelector("h1, h2, h3, h4, h5, h6");
        const headings = title ? [...page.querySelectorAll("h1, h2, h3, h4, h5, h6")] : [];
        const above = title ? Number(title.tagName[1]) - 1 : 0;
        for (const heading of headings) {
            const level = document.createElement(`h${Number(heading.tagName[1]) - above}`);
            level.append(...heading.childNodes);
            heading.replaceWith(level);
        }
        page?.querySelector("h1")?.prepend(mark);
    }
    // Without their figures the playgrounds are short: one below the other, not each on a page of its own.
    for (const text of document.querySelectorAll(".moves")) {
        text.closest("section").querySelector("h1").style.breakBefore = "auto";
    }
    if (answers.children.length) {
        answers.prepend(Object.assign(document.createElement("h1"), {textContent: "Answers"}));
        document.body.append(answers);
    }
    // A label that is a line of its own, such as "Returns", stays with what it is the label of.
    for (const label of document.querySelectorAll("p > strong:only-child")) {
        if (label.textContent === label.parentElement.textContent) label.parentElement.style.breakAfter = "avoid";
    }
    // Between two headings, or before a new page, an empty anchor is a line of its own where a page may break.
    for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
        while (heading.previousElementSibling?.matches("span:empty")) heading.prepend(heading.previousElementSibling);
    }
}"""
CONTENTS = """depth => {
    const list = document.createElement("nav");
    const shown = heading => heading.getClientRects().length;
    const headings = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].filter(shown);
    list.className = "book-contents";
    headings.forEach((heading, number) => {
        const level = Number(heading.tagName[1]);
        if (level > depth) return;
        heading.id ||= `heading-${number}`;
        const line = Object.assign(document.createElement("a"), {href: `#${heading.id}`, className: `level-${level}`});
        const text = heading.cloneNode(true);
        text.querySelectorAll(".headerlink").forEach(link => link.remove());
        const page = Object.assign(document.createElement("span"), {className: "page", textContent: "000"});
        page.dataset.heading = number;
        const title = Object.assign(document.createElement("span"), {textContent: text.textContent});
        line.append(title, page);
        list.append(line);
    });
    document.querySelector(".book-title").after(list);
    return headings.length;
}"""
TITLE = """([title, subtitle, version, preface]) => {
    const page = document.createElement("header"), before = document.createElement("section");
    page.className = "book-title";
    page.append(Object.assign(document.createElement("div"), {className: "name", textContent: title}));
    page.append(Object.assign(document.createElement("div"), {textContent: subtitle}));
    page.append(Object.assign(document.createElement("div"), {textContent: version}));
    before.append(Object.assign(document.createElement("h1"), {textContent: "Preface"}));
    preface.forEach(text => before.append(Object.assign(document.createElement("p"), {textContent: text})));
    document.body.prepend(page, before);
}"""
SUBTITLE = "Reinforcement learning from human feedback, one tested block at a time"
PREFACE = """\
A model's score rises and rises while its texts get worse. In practice nobody sees it, since nobody knows the truth
about a text. This book has a small language in which the truth is known. In it you build PPO for RLHF from its
parts, and watch each part fail before you repair it.

Every number in it was computed by the code that comes with it. Each lesson begins with what goes wrong, and asks
before it shows. Predict first: a wrong prediction that you have written down teaches more than ten right sentences
that you have read. The answers, with the figures of the notebooks, are at the end, and so are the hints.

The tests, which know the mistakes of real projects by name, do not fit on paper. They are in the repository, with
the code of every figure."""
NUMBER = """pages => document.querySelectorAll(".book-contents .page").forEach(cell => {
    cell.textContent = pages[cell.dataset.heading] + 1;
})"""
TOO_WIDE = """() => [...document.querySelectorAll("pre, table, img, math, p, li")]
    .filter(node => node.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(node => `${node.closest("section")?.id}: <${node.localName}> ${node.textContent.trim().slice(0, 80)}`)"""


class Unfit(RuntimeError):
    """Something would be cut on paper."""


def make(page: Any, out: Path, version: str, most: int | None = None) -> int:
    """Write the PDF of the open page and return its number of pages.

    Raises:
        Unfit: a table, formula or line is wider than the paper, the outline does not match the headings, or there are
            more than `most` pages.
    """
    page.emulate_media(media="print", color_scheme="light")
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    page.evaluate(PREPARE)
    page.evaluate(
        "Promise.allSettled([...document.fonts].map(font => font.load()))"
    )  # one that came late would move lines
    page.evaluate(TITLE, ["PPO by Hand", SUBTITLE, version, PREFACE.split("\n\n")])
    wide = page.evaluate(TOO_WIDE)
    if wide:
        raise Unfit("wider than the paper:\n" + "\n".join(wide))
    count = page.evaluate(CONTENTS, 2)
    pages = _outline(_printed(page))
    if len(pages) != count:
        raise Unfit(f"expected {count} headings in the outline, got {len(pages)}")
    numbered = _numbered(page, pages)
    count = len(pypdfium2.PdfDocument(numbered))
    if most is not None and count > most:
        raise Unfit(f"expected at most {most} pages, got {count}")
    out.write_bytes(numbered)
    return count


def _numbered(page: Any, pages: list[int]) -> bytes:
    """Printed with these numbers in the contents, or those of a later printing: the first may break pages elsewhere."""
    for _ in range(PRINTINGS):
        page.evaluate(NUMBER, pages)
        printed = _printed(page)
        before, pages = pages, _outline(printed)
        if pages == before:
            return printed
    moved = [f"{old + 1} to {new + 1}" for old, new in zip(before, pages, strict=True) if old != new]
    raise Unfit(f"the contents name pages that move: {', '.join(moved[:9])}")


def _printed(page: Any) -> bytes:
    """Laid out from nothing each time: from the last printing's layout Chromium may break the same pages elsewhere."""
    page.evaluate("document.body.hidden = true; document.body.offsetHeight; document.body.hidden = false")
    return page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)


def _outline(pdf: bytes) -> list[int]:
    """The page of each heading, from 0."""
    return [entry.get_dest().get_index() for entry in pypdfium2.PdfDocument(pdf).get_toc(max_depth=9)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make book-pdf")
    parser.add_argument("html", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--most", type=int, metavar="PAGES")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("error: expected Chromium on the PATH; Debian and Ubuntu: apt install chromium")
    version = re.search(r'<meta name="version" content="([^"]*)"', options.html.read_text("utf-8"))
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        browser = playwright.chromium.launch_persistent_context(
            profile, executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.pages[0]
        page.set_default_timeout(300_000)
        page.goto(options.html.resolve().as_uri())
        try:
            count = make(page, options.out, version[1] if version else "", options.most)
        except Unfit as error:
            sys.exit(f"error: {error}")
        finally:
            browser.close()
    print(f"{options.out}: {count} pages")


if __name__ == "__main__":
    main()
