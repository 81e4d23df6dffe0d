// Builds elements. Text only ever becomes text nodes: nothing here reads HTML.

const SVG = "http://www.w3.org/2000/svg";

// `attributes` may have functions, which listen for the event they are named for.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

// A drawing out of the symbols in index.html; what it means is said beside it.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

export function iconButton(name, label, click, more = {}) {
  const attributes = { type: "button", class: "icon-button", "aria-label": label, title: label };
  return el("button", { ...attributes, click, ...more }, icon(name));
}

export const byId = (id) => document.getElementById(id);

// For those who can't see it happen.
export function announce(text) {
  byId("announcement").textContent = text;
}

export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Browsers give the clipboard to pages of this machine or with https; elsewhere, the old way.
  const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function copyButton(textOf, label = "Copy") {
  const button = iconButton("copy", label, async () => {
    await copy(textOf());
    button.replaceChildren(icon("check"));
    announce("Copied");
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
  });
  return button;
}
