/* What all playgrounds share: labeled native controls, a chart, and a sentence that says what is seen. */
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function shape(tag, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

function shown(number, digits = 2) {
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  return (Math.abs(number) < 0.5 * 10 ** -digits ? 0 : number).toFixed(digits).replace("-", "\u2212");
}

/* A playground: controls change `state`, and every change draws anew.
   controls: [{ name, label, min, max, step, value, show? } or { name, label, value, choices: [[value, text], ...] }]
   draw(state, figure, set): fills the figure and returns the sentence; set(name, value) moves a control. */
function playground(root, { controls, draw }) {
  const state = {}, inputs = {};
  const panel = element("form", { class: "controls" });
  const figure = element("div", { class: "figure" });
  const sentence = element("p", { class: "sentence", role: "status" });
  panel.addEventListener("submit", (event) => event.preventDefault());

  const update = () => { figure.replaceChildren(); sentence.textContent = draw(state, figure, set); };
  const set = (name, value) => {
    const { min, max, step } = inputs[name];
    const rounded = Math.round((value - min) / step) * step + Number(min);
    inputs[name].value = Math.min(Math.max(rounded, min), max);
    inputs[name].dispatchEvent(new Event("input", { bubbles: true }));
  };
  for (const control of controls) {
    panel.append(control.choices ? chooser(control, state, update) : slider(control, state, inputs, update));
  }
  const reset = element("button", { type: "reset" }, "Reset");
  panel.append(element("div", { class: "control" }, reset));
  panel.addEventListener("reset", () => setTimeout(() => {
    for (const input of panel.querySelectorAll("input")) input.dispatchEvent(new Event("input", { bubbles: true }));
  }));
  root.replaceChildren(panel, sentence, figure);
  root.playground = { state, set, update };
  let width = 0;
  new ResizeObserver(() => { if (width !== (width = figure.clientWidth)) update(); }).observe(figure);
  update();
}

function slider({ name, label, min, max, step, value, show }, state, inputs, update) {
  const text = show || ((number) => shown(number, step < 0.1 ? 2 : step < 1 ? 1 : 0));
  const input = element("input", { type: "range", id: `control-${name}`, name, min, max, step, value });
  const output = element("output", { for: input.id });
  const read = () => {
    state[name] = Number(input.value);
    output.textContent = text(state[name]);
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => { read(); update(); });
  inputs[name] = input;
  read();
  return element("div", { class: "control" }, element("label", { for: input.id }, label), input, output);
}

function chooser({ name, label, value, choices }, state, update) {
  const group = element("fieldset", { class: "control" }, element("legend", {}, label));
  state[name] = value;
  for (const [choice, text] of choices) {
    const input = element("input", { type: "radio", name, value: choice, id: `control-${name}-${choice}` });
    if (choice === value) input.defaultChecked = true;
    input.addEventListener("input", () => { if (input.checked) { state[name] = choice; update(); } });
    group.append(element("span", { class: "choice" }, input, element("label", { for: input.id }, text)));
  }
  return group;
}

/* Axes of the figure's width. Returns the SVG and the scales; what is drawn uses classes, so that dark mode follows. */
function chart(figure, { x, y, height = 240, xlabel = "", ylabel = "", ticks = 5, xticks = ticks, names = null, title }) {
  const width = Math.max(figure.clientWidth, 240), left = 48, right = 12, top = 26, bottom = xlabel ? 44 : 26;
  const svg = shape("svg", { width, height, role: "img", "aria-label": title });
  const at_x = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (width - left - right);
  const at_y = (value) => height - bottom - ((value - y[0]) / (y[1] - y[0])) * (height - top - bottom);
  const from_y = (pixel) => y[0] + ((height - bottom - pixel) / (height - top - bottom)) * (y[1] - y[0]);
  for (let i = 0; i <= ticks; i++) {
    const value = y[0] + ((y[1] - y[0]) * i) / ticks;
    svg.append(shape("line", { x1: left, x2: width - right, y1: at_y(value), y2: at_y(value), class: "rule" }));
    svg.append(shape("text", { x: left - 6, y: at_y(value) + 4, "text-anchor": "end" }, shown(value, y[1] - y[0] < 2 ? 2 : 1)));
  }
  for (let i = 0; i <= xticks && !names; i++) {
    const place = x[0] + ((x[1] - x[0]) * i) / xticks;
    svg.append(shape("text", { x: at_x(place), y: height - bottom + 18, "text-anchor": "middle" }, shown(place, x[1] - x[0] < 9 ? 1 : 0)));
  }
  (names || []).forEach((name, i) => {
    svg.append(shape("text", { x: at_x(i), y: height - bottom + 18, "text-anchor": "middle" }, name));
  });
  if (y[0] < 0 && y[1] > 0) svg.append(shape("line", { x1: left, x2: width - right, y1: at_y(0), y2: at_y(0), class: "axis" }));
  if (xlabel) svg.append(shape("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, xlabel));
  if (ylabel) svg.append(shape("text", { x: 2, y: 12 }, ylabel));
  figure.append(svg);
  return { svg, at_x, at_y, from_y, unit: (width - left - right) / (x[1] - x[0]) };
}

function bar({ svg, at_y }, center, width, value, kind) {
  const top = Math.min(at_y(value), at_y(0)), height = Math.max(Math.abs(at_y(value) - at_y(0)), 1);
  const drawn = shape("rect", { x: center - width / 2, y: top, width, height, class: kind });
  svg.append(drawn);
  return drawn;
}

function line({ svg, at_x, at_y }, points, kind) {
  svg.append(shape("polyline", { points: points.map(([x, y]) => `${at_x(x)},${at_y(y)}`).join(" "), class: kind }));
}

function dot({ svg, at_x, at_y }, x, y, kind) {
  const drawn = shape("circle", { cx: at_x(x), cy: at_y(y), r: 6, class: kind });
  svg.append(drawn);
  return drawn;
}

/* Let a shape be dragged up and down; the keyboard has the control of the same value. */
function draggable(drawn, { svg, from_y }, move) {
  drawn.classList.add("draggable");
  drawn.addEventListener("pointerdown", (down) => {
    const figure = svg.parentNode;
    const follow = (event) => move(from_y(event.clientY - figure.firstChild.getBoundingClientRect().top));
    const stop = () => { removeEventListener("pointermove", follow); removeEventListener("pointerup", stop); };
    addEventListener("pointermove", follow);
    addEventListener("pointerup", stop);
    down.preventDefault();
  });
}

function legend(figure, entries) {
  const list = element("ul", { class: "legend" });
  for (const [kind, text] of entries) list.append(element("li", {}, element("span", { class: `swatch ${kind}` }), text));
  figure.append(list);
}

/* head: column names; rows: arrays whose first entry names the row. NaN and inf are marked. */
function table(figure, head, rows) {
  const cell = (value) => {
    const text = typeof value === "number" ? shown(value, 3) : value;
    return element("td", typeof value === "number" && !Number.isFinite(value) ? { class: "leak" } : {}, text);
  };
  const body = rows.map(([name, ...cells]) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map(cell)));
  const heads = head.map((name) => (name ? element("th", { scope: "col" }, name) : element("td")));
  const prose = rows.some((row) => row.slice(1).some((value) => String(value).length > 12 && typeof value === "string"));
  const made = element("table", prose ? { class: "prose" } : {}, element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body));
  figure.append(element("div", { class: "numbers", tabindex: "0", role: "region", "aria-label": "The numbers" }, made));
}
