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

/** Sets a text, if it differs: a screen reader repeats only what changes. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
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
