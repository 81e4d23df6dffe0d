// Markdown on the page, while it comes. Blocks that are complete stay as they are; only the last one
// is made anew, so that a long answer costs no more by the word than a short one.

import { blocksOf } from "./blocks.js";
import { copyButton, el } from "./dom.js";
import { inlineOf } from "./inline.js";

// The beginning of a line that may yet become anything.
const UNDECIDED = /(?:^|\n) {0,3}(?:[-*+_#|>~`]{1,3}|\d{1,9}[.)]) *$/;

export class MarkdownView {
  #root;
  #length = 0; // of the text that is done
  #open = []; // {block, node} of what may still change
  #last = null; // the last block that is done

  constructor(root) {
    this.#root = root;
  }

  // The whole text so far, of which what was shown is the beginning.
  show(written, { isComing = false } = {}) {
    const text = written.replaceAll("\r", "");
    let tail = text.slice(this.#length);
    if (isComing) tail = tail.replace(UNDECIDED, "");
    const blocks = blocksOf(tail);
    const numKept = this.#kept(blocks);
    for (const { node } of this.#open.splice(numKept)) this.#remove(node);
    for (const block of blocks.slice(numKept)) {
      const before = this.#open.at(-1)?.block ?? this.#last;
      const isLast = isComing && block === blocks.at(-1);
      this.#open.push({ block, node: this.#add(block, before, isLast) });
    }
    this.#settle(tail);
  }

  // How many of the blocks are there already. Code that grows gets what is new of it.
  #kept(blocks) {
    let place = 0;
    while (place < this.#open.length && place < blocks.length) {
      const known = this.#open[place];
      const block = blocks[place];
      const isSame = JSON.stringify(known.block) === JSON.stringify(block);
      // The last one may have been shown as one that is still coming.
      if (isSame && place < this.#open.length - 1) place++;
      else if (known.block.type === "code" && block.type === "code" && grows(known, block)) place++;
      else break;
    }
    return place;
  }

  // A block is done once the next one has a first line that is whole.
  #settle(tail) {
    let numDone = 0;
    for (let place = 1; place < this.#open.length; place++) {
      if (tail.indexOf("\n", this.#open[place].block.begin) >= 0) numDone = place;
    }
    if (numDone === 0) return;
    const shift = this.#open[numDone].block.begin;
    this.#last = this.#open[numDone - 1].block;
    this.#length += shift;
    this.#open = this.#open.slice(numDone);
    for (const { block } of this.#open) block.begin -= shift;
  }

  #add(block, before, isComing) {
    if (block.type !== "item") {
      const node = elementOf(block, isComing, 0);
      this.#root.append(node);
      return node;
    }
    return addItem(this.#root, block, before, isComing, 0);
  }

  #remove(node) {
    const parent = node.parentNode;
    node.remove();
    if (parent !== this.#root && !parent.childNodes.length) parent.remove();
  }
}

function grows(known, block) {
  const code = known.node.querySelector("code").firstChild;
  const { language, text } = known.block;
  if (language !== block.language || !block.text.startsWith(text)) return false;
  code.appendData(block.text.slice(text.length));
  known.block = block;
  return true;
}

function addItem(root, block, before, isComing, depth) {
  const isSameList = before?.type === "item" && before.isOrdered === block.isOrdered;
  if (!isSameList) {
    const start = block.isOrdered && block.number !== 1 ? { start: block.number } : {};
    root.append(el(block.isOrdered ? "ol" : "ul", start));
  }
  const item = el("li", block.isDone === null ? {} : { class: "task" });
  if (block.isDone !== null) {
    const label = block.isDone ? "Done" : "To do";
    item.append(
      el("input", { type: "checkbox", disabled: true, checked: block.isDone, "aria-label": label }),
    );
  }
  addBlocks(item, block.text, isComing, depth + 1);
  root.lastElementChild.append(item);
  return item;
}

function addBlocks(root, text, isComing, depth) {
  const blocks = blocksOf(text, depth);
  blocks.forEach((block, place) => {
    const isOpen = isComing && place === blocks.length - 1;
    if (block.type === "item") addItem(root, block, blocks[place - 1], isOpen, depth);
    else root.append(elementOf(block, isOpen, depth));
  });
}

function elementOf(block, isComing, depth) {
  switch (block.type) {
    case "code":
      return codeElement(block);
    case "heading":
      // The page has headings of its own above these.
      return filled(el(`h${Math.min(6, block.level + 2)}`), block.text, isComing);
    case "rule":
      return el("hr");
    case "quote": {
      const quote = el("blockquote");
      addBlocks(quote, block.text, isComing, depth + 1);
      return quote;
    }
    case "table":
      return tableElement(block);
    default:
      return filled(el("p"), block.text, isComing);
  }
}

function codeElement({ language, text }) {
  const code = el("code", {}, document.createTextNode(text));
  const head = el(
    "div",
    { class: "code-head" },
    el("span", {}, language || "code"),
    copyButton(() => code.textContent, "Copy the code"),
  );
  // Those who can't use a mouse scroll it by keys.
  const pre = el("pre", { tabindex: "0", role: "region", "aria-label": "Code" }, code);
  return el("div", { class: "code" }, head, pre);
}

function tableElement({ header, aligns, rows }) {
  const cell = (tag, text, place) => {
    const element = filled(el(tag, tag === "th" ? { scope: "col" } : {}), text, false);
    if (aligns[place]) element.classList.add(`align-${aligns[place]}`);
    return element;
  };
  const row = (tag, cells) =>
    el("tr", {}, ...header.map((_, place) => cell(tag, cells[place] ?? "", place)));
  const table = el(
    "table",
    {},
    el("thead", {}, row("th", header)),
    el("tbody", {}, ...rows.map((cells) => row("td", cells))),
  );
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": "Table" }, table);
}

function filled(element, text, isComing) {
  element.append(...inlineOf(text, isComing).map(nodeOf));
  return element;
}

function nodeOf(node) {
  if (typeof node === "string") return document.createTextNode(node);
  const attributes =
    node.tag === "a"
      ? { href: node.href, target: "_blank", rel: "noopener noreferrer nofollow" }
      : {};
  return el(node.tag, attributes, ...node.nodes.map(nodeOf));
}
