// Builds elements. Text goes in as text nodes only, so nothing that a message holds is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag a name, with classes as in CSS: "p.empty"
 * @param {Object<string, any>} [attributes] `on...` are listeners; null and false leave an attribute out
 * @param {...(Node|string|number|null|undefined)} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return /** @type {HTMLElement} */ (filled(document.createElement(name), classes, attributes, children));
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElementNS(SVG, name), classes, attributes, children);
}

/** A sentence, with what stands in backticks as code. */
export const prose = (text) => text.split("`").map((part, n) => (n % 2 ? h("code", {}, part) : part));

/** Sets a text, if it differs: a screen reader repeats only what changes. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Makes the children of a node equal to these, in place: what has the focus, or is clicked meanwhile, stays. */
export function refill(node, ...children) {
  const wanted = [...filled(document.createDocumentFragment(), [], {}, children).childNodes];
  wanted.forEach((child, n) => {
    const there = node.childNodes[n];
    if (!there) node.append(child);
    else if (there.isEqualNode(child)) return;
    else if (there.nodeName !== child.nodeName || !child.attributes) there.replaceWith(child);
    else {
      for (const { name } of [...there.attributes]) if (!child.hasAttribute(name)) there.removeAttribute(name);
      for (const { name, value } of child.attributes) there.setAttribute(name, value);
      refill(there, ...child.childNodes);
    }
  });
  while (node.childNodes.length > wanted.length) node.lastChild.remove();
}

/** A part of the page with a title. */
export function panel(title, hint, ...children) {
  return h(
    "section.panel",
    { "aria-label": title },
    h("h2", {}, title, hint ? h("small", {}, hint) : null),
    ...children,
  );
}

/** What a drawing shows, as a table: for whoever has no pointer or does not see it. It is built only while it is open. */
export function asTable(place, title) {
  const table = h("table", { "aria-label": title });
  const inside = h("div.scrolls", { role: "region", "aria-label": `${title}, as a table`, tabindex: 0 }, table);
  const details = h("details.values", { ontoggle: draw }, h("summary", {}, "as a table"), inside);
  let cells = () => [];
  place.append(details);
  function draw() {
    if (!details.open) return;
    const [head = [], ...rows] = cells();
    table.replaceChildren(
      h("thead", {}, h("tr", {}, ...head.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, ...rows.map(([first, ...others]) => h("tr", {}, h("th", { scope: "row" }, first), ...others.map((each) => h("td", {}, each))))),
    );
  }
  return {
    /** @param {() => (string|number)[][]} next its rows, the first of them the head */
    show(next) {
      cells = next;
      draw();
    },
  };
}

function filled(node, classes, attributes, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      node.setAttribute(key, value === true ? "" : value);
  }
  node.append(
    ...children
      .filter((each) => each !== null && each !== undefined && each !== false)
      .map((each) => (each instanceof Node ? each : document.createTextNode(String(each)))),
  );
  return node;
}
