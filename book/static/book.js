/* What a keyboard or another language needs and the theme's pages lack. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  // On a phone a figure is as wide as its type needs, 100 pixels for an inch (a notebook's has 90), and scrolls.
  const figures = matchMedia("(max-width: 46em)").matches ? document.querySelectorAll("article img") : [];
  for (const figure of figures) {
    const frame = Object.assign(document.createElement("span"), { className: "wide-figure", tabIndex: 0 });
    frame.setAttribute("role", "group");
    frame.setAttribute("aria-label", "a figure that scrolls sideways");
    if (figure.closest(".cell_output")) frame.style.setProperty("--least", `${parseFloat(figure.style.width) / 0.9}px`);
    figure.replaceWith(frame);
    frame.append(figure);
  }
  for (const box of document.querySelectorAll("article pre, article .table-wrapper, article .formula, .long-formula")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});

// Sphinx's catalogues have lines that nobody translated, and a plural that is true or false, where its search throws.
const plural = Documentation.PLURAL_EXPR;
Documentation.PLURAL_EXPR = number => Number(plural(number));
for (const [text, translated] of Object.entries(Documentation.TRANSLATIONS)) {
  if (![translated].flat().every(Boolean)) delete Documentation.TRANSLATIONS[text];
}
