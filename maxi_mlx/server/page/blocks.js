// Markdown to its blocks. Knows text alone, no page.
//
// A block is {type, begin, …}; `begin` is where its first line begins. A list comes item by item, so
// that a long one need not be read anew with each of its words.

// None of these takes more steps than a line has characters.
const FENCE = /^( {0,3})(`{3,}|~{3,}(?!~))([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6}) +(.*)$/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)/;
const NESTED_ITEM = /^ +(?:[-*+]|\d{1,9}[.)]) /;
const DELIMITERS = /^\|? *:?-+:? *(?:\| *:?-+:? *)*\|?$/;
const TASK = /^\[([ xX])\] +/;
// Deeper ones are shown as they are written: nobody means them.
const MAX_DEPTH = 6;

export function blocksOf(text, depth = 0) {
  const reader = new Reader(text, depth);
  const blocks = [];
  while (!reader.atEnd) {
    if (reader.line.trim() === "") reader.next();
    else blocks.push(reader.block());
  }
  return blocks;
}

const isDelimiters = (line) => line.includes("|") && DELIMITERS.test(line.trim());
const begins = (line) =>
  FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line);
// In the middle of a sentence that goes over lines, "7. " is no list.
const beginsInText = (line) => begins(line) || /^ {0,3}(?:[-*+]|1[.)]) +\S/.test(line);
const indentOf = (line) => line.length - line.trimStart().length;

class Reader {
  constructor(text, depth) {
    this.lines = text.split("\n").map((line) => line.replaceAll("\t", "    "));
    this.lengths = text.split("\n").map((line) => line.length + 1);
    this.depth = depth;
    this.place = 0;
    this.offset = 0;
  }

  get atEnd() {
    return this.place >= this.lines.length;
  }

  get line() {
    return this.lines[this.place];
  }

  next() {
    this.offset += this.lengths[this.place];
    return this.lines[this.place++];
  }

  block() {
    const begin = this.offset;
    return { begin, ...this.#read() };
  }

  #read() {
    const { line, depth } = this;
    let match;
    if ((match = FENCE.exec(line))) return this.#code(match);
    if ((match = HEADING.exec(line))) {
      this.next();
      const text = match[2].trim().replace(/\s#+$/, "");
      return { type: "heading", level: match[1].length, text };
    }
    if (RULE.test(line)) {
      this.next();
      return { type: "rule" };
    }
    if (depth < MAX_DEPTH && QUOTE.test(line)) return this.#quote();
    if (depth < MAX_DEPTH && (match = ITEM.exec(line))) return this.#item(match);
    if (this.#isTable()) return this.#table();
    return this.#paragraph();
  }

  #isTable() {
    return this.line.includes("|") && isDelimiters(this.lines[this.place + 1] ?? "");
  }

  #code([, indent, fence, info]) {
    this.next();
    const language = info.trim().split(/\s/, 1)[0];
    const end = new RegExp(`^ {0,3}${fence[0]}{${fence.length},} *$`);
    const lines = [];
    let isClosed = false;
    while (!this.atEnd && !isClosed) {
      const line = this.next();
      isClosed = end.test(line);
      if (!isClosed) lines.push(line.slice(Math.min(indentOf(line), indent.length)));
    }
    return { type: "code", language, text: lines.join("\n"), isClosed };
  }

  #quote() {
    const lines = [];
    while (!this.atEnd && QUOTE.test(this.line)) lines.push(this.next().replace(QUOTE, ""));
    return { type: "quote", text: lines.join("\n") };
  }

  #item([marker, , sign, spaces]) {
    const isOrdered = sign.length > 1;
    // Five spaces or more belong to code that is set in, which models don't mean.
    const width = marker.length - Math.max(0, spaces.length - 4) + (spaces ? 0 : 1);
    const lines = [this.next().slice(marker.length)];
    let fence = null;
    let isBlank = false;
    while (!this.atEnd) {
      const line = this.line;
      const indent = indentOf(line);
      const isInside = indent >= width || (indent >= 2 && NESTED_ITEM.test(line));
      if (line.trim() === "") isBlank = true;
      else if (isInside) isBlank = false;
      else if (isBlank || fence || begins(line) || ITEM.test(line)) break;
      const inner = line.slice(Math.min(indent, width));
      const mark = FENCE.exec(inner);
      if (mark && (!fence || inner.trim().startsWith(fence))) fence = fence ? null : mark[2];
      lines.push(inner);
      this.next();
    }
    while (lines.length > 1 && lines.at(-1).trim() === "") lines.pop();
    const task = TASK.exec(lines[0]);
    if (task) lines[0] = lines[0].slice(task[0].length);
    return {
      type: "item",
      isOrdered,
      number: isOrdered ? parseInt(sign, 10) : null,
      isDone: task ? task[1] !== " " : null,
      text: lines.join("\n"),
    };
  }

  #table() {
    const header = cellsOf(this.next());
    const aligns = cellsOf(this.next()).map((cell) => {
      if (!cell.endsWith(":")) return null;
      return cell.startsWith(":") ? "center" : "right";
    });
    const rows = [];
    while (!this.atEnd && this.line.includes("|") && !begins(this.line)) {
      rows.push(cellsOf(this.next()));
    }
    return { type: "table", header, aligns, rows };
  }

  #paragraph() {
    const lines = [this.next().trim()];
    while (!this.atEnd && this.line.trim() !== "" && !beginsInText(this.line)) {
      if (this.#isTable()) break;
      lines.push(this.next().trim());
    }
    return { type: "paragraph", text: lines.join("\n") };
  }
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  let isCode = false;
  const row = line.trim().replace(/^\|/, "");
  for (let place = 0; place < row.length; place++) {
    const character = row[place];
    if (character === "`") isCode = !isCode;
    if (character === "\\" && row[place + 1] === "|") cell += row[++place];
    else if (character === "|" && !isCode) {
      cells.push(cell.trim());
      cell = "";
    } else cell += character;
  }
  if (cell.trim()) cells.push(cell.trim());
  return cells;
}
