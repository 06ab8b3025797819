/* What a phone or a keyboard needs and the theme's pages lack. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // What a screen reader is told: the level of the sidebar's headings, its landmarks, and no heading that is empty.
  for (const caption of document.querySelectorAll('[role="heading"]:not([aria-level])')) caption.ariaLevel = "2";
  document.querySelector("aside.sidebar-drawer")?.setAttribute("aria-label", "Contents of the book");
  document.querySelector("aside.toc-drawer")?.setAttribute("aria-label", "Contents of this page");
  for (const head of document.querySelectorAll("article th")) if (!head.textContent.trim()) head.outerHTML = "<td></td>";
  // On a phone a figure is as wide as its type needs, 100 pixels for an inch (a notebook's has 90), and scrolls.
  const figures = matchMedia("(max-width: 46em)").matches ? document.querySelectorAll("article img") : [];
  for (const figure of figures) {
    const frame = Object.assign(document.createElement("span"), { className: "wide-figure", tabIndex: 0 });
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "a figure that scrolls sideways");
    if (figure.closest(".cell_output")) frame.style.setProperty("--least", `${figure.getAttribute("width") / 0.9}px`);
    figure.replaceWith(frame);
    frame.append(figure);
  }
  const typeset = window.MathJax?.startup?.promise ?? Promise.resolve();
  typeset.then(() => {
    for (const box of document.querySelectorAll("article pre, article .table-wrapper, article div.math, .long-formula")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  });
});
