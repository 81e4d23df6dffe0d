// What is inside of a line of Markdown: a list of texts and {tag, nodes, …}. Knows no page.
//
// One pass, with a stack of what is open that is never searched far, so that no text takes longer
// than its length.

const MAX_OPEN = 16;
const MAX_TICKS = 8;
const URL_TEXT = /https?:\/\/[^\s<>"'`\\^{}|]+/y;
const DESTINATION = /\([ \n]{0,2}(<[^<>\n]{0,2000}>|[^\s()]{0,2000}(?:\([^\s()]{0,200}\)[^\s()]{0,200}){0,4})(?:[ \n]{1,2}"[^"\n]{0,500}")?[ \n]{0,2}\)/y;
const BREAK = /<br ?\/?>/iy;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const SPACE = /\s/;

// Where the text is still coming, bold words and code without an end go on to it.
export function inlineOf(text, isComing = false) {
  return new Inline(text, isComing).read();
}

// The address, if following it can only lead to another page.
export function webAddress(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
}

class Inline {
  constructor(text, isComing) {
    this.text = text;
    this.isComing = isComing;
    this.place = 0;
    this.plain = "";
    this.nodes = [];
    this.open = []; // runs of * _ ~ that something may close: {sign, count, at}
    this.brackets = []; // where a link's text may begin
    this.endlessTicks = new Set();
  }

  read() {
    while (this.place < this.text.length) this.#step(this.text[this.place]);
    this.#flush();
    if (this.isComing) {
      const bold = this.open.filter((run) => run.sign === "*" && run.count === 2).at(-1);
      if (bold && bold.at < this.nodes.length - 1) this.#wrap(bold, 2);
    }
    return this.nodes.filter((node) => node !== "");
  }

  #step(character) {
    const { text, place } = this;
    switch (character) {
      case "\\":
        return this.#escape();
      case "\n":
        this.plain = this.plain.trimEnd();
        return this.#push({ tag: "br", nodes: [] }, 1);
      case "`":
        return this.#code();
      case "*":
      case "_":
      case "~":
        return this.#run(character);
      case "!":
      case "[":
        if (character === "[" || text[place + 1] === "[") return this.#bracket(character);
        break;
      case "]":
        return this.#endBracket();
      case "<":
      case "h":
        if (this.#found(character)) return undefined;
    }
    this.plain += character;
    this.place++;
    return undefined;
  }

  #flush() {
    if (this.plain) this.nodes.push(this.plain);
    this.plain = "";
  }

  #push(node, length) {
    this.#flush();
    this.nodes.push(node);
    this.place += length;
  }

  #escape() {
    const next = this.text[this.place + 1];
    const isEscape = next !== undefined && next < "\x7f" && PUNCTUATION.test(next);
    this.plain += isEscape ? next : "\\";
    this.place += isEscape ? 2 : 1;
  }

  #code() {
    const ticks = /`+/y;
    ticks.lastIndex = this.place;
    const [mark] = ticks.exec(this.text);
    const begin = this.place + mark.length;
    let end = this.#endOfCode(mark, begin);
    if (end < 0 && this.isComing && mark.length === 1 && begin < this.text.length) {
      end = this.text.length;
    }
    if (end < 0) {
      this.plain += mark;
      this.place = begin;
      return;
    }
    let code = this.text.slice(begin, end).replaceAll("\n", " ");
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
    this.#push({ tag: "code", nodes: [code] }, end + mark.length - this.place);
  }

  // Once no run of that length was found, there is none further on either.
  #endOfCode(mark, begin) {
    if (mark.length > MAX_TICKS || this.endlessTicks.has(mark.length)) return -1;
    const { text } = this;
    let end = text.indexOf(mark, begin);
    while (end >= 0) {
      let after = end + mark.length;
      if (text[after] !== "`" && text[end - 1] !== "`") return end;
      while (text[after] === "`") after++;
      end = text.indexOf(mark, after);
    }
    this.endlessTicks.add(mark.length);
    return -1;
  }

  #run(sign) {
    const { text } = this;
    let count = 1;
    while (text[this.place + count] === sign) count++;
    const before = text[this.place - 1] ?? " ";
    const after = text[this.place + count] ?? " ";
    this.place += count;
    if (count > 3 || (sign === "~" && count !== 2)) {
      this.plain += sign.repeat(count);
      return;
    }
    const isAtBegin = !SPACE.test(after) && (!PUNCTUATION.test(after) || isEdge(before));
    const isAtEnd = !SPACE.test(before) && (!PUNCTUATION.test(before) || isEdge(after));
    const isInWord = sign === "_" && isAtBegin && isAtEnd && !isEdge(before) && !isEdge(after);
    let left = count;
    while (isAtEnd && !isInWord && left > 0) {
      const run = this.open.findLast((each) => each.sign === sign);
      if (!run || (sign === "~" && left < 2)) break;
      this.#flush();
      const used = Math.min(2, run.count, left);
      this.#wrap(run, used);
      left -= used;
    }
    if (left > 0) this.#openRun(sign, left, isAtBegin && !isInWord);
  }

  #openRun(sign, count, canOpen) {
    if (!canOpen || this.open.length >= MAX_OPEN) {
      this.plain += sign.repeat(count);
      return;
    }
    this.#flush();
    this.open.push({ sign, count, at: this.nodes.length });
    this.nodes.push(sign.repeat(count));
  }

  #wrap(run, used) {
    const inner = this.#taken(run.at);
    run.count -= used;
    const tag = run.sign === "~" ? "del" : used === 2 ? "strong" : "em";
    if (run.count > 0) {
      this.nodes.push(run.sign.repeat(run.count));
      this.open.push(run);
    }
    this.nodes.push({ tag, nodes: inner });
  }

  // All nodes behind number `at`, which goes as well, and all that is open there.
  #taken(at) {
    const inner = this.nodes.splice(at + 1);
    this.nodes.pop();
    while (this.open.length && this.open.at(-1).at >= at) this.open.pop();
    while (this.brackets.length && this.brackets.at(-1) >= at) this.brackets.pop();
    return inner;
  }

  #bracket(character) {
    this.#flush();
    const sign = character === "!" ? "![" : "[";
    this.brackets.push(this.nodes.length);
    this.nodes.push(sign);
    this.place += sign.length;
  }

  // Pictures are shown as links to them: the page asks no other server for anything.
  #endBracket() {
    const at = this.brackets.pop();
    DESTINATION.lastIndex = this.place + 1;
    const match = at === undefined ? null : DESTINATION.exec(this.text);
    if (!match) {
      this.plain += "]";
      this.place++;
      return;
    }
    this.#flush();
    const address = webAddress(match[1].replace(/^<|>$/g, ""));
    if (address === null) {
      this.plain += "]" + match[0];
    } else {
      const nodes = this.#taken(at);
      this.nodes.push({ tag: "a", href: address, nodes: nodes.length ? nodes : [address] });
      this.brackets = []; // a link has no link around it
    }
    this.place += 1 + match[0].length;
  }

  // An address that stands in the text, or a line break as HTML writes it.
  #found(character) {
    if (character === "<") {
      BREAK.lastIndex = this.place;
      const match = BREAK.exec(this.text);
      if (match) this.#push({ tag: "br", nodes: [] }, match[0].length);
      return Boolean(match);
    }
    const isInWord = /[\w/]/.test(this.text[this.place - 1] ?? " ");
    if (isInWord || this.brackets.length) return false;
    URL_TEXT.lastIndex = this.place;
    const match = URL_TEXT.exec(this.text);
    if (!match) return false;
    let shown = match[0].slice(0, 2000).replace(/[.,;:!?*_~\]]+$/, "");
    if (shown.endsWith(")") && !shown.includes("(")) shown = shown.replace(/\)+$/, "");
    const address = webAddress(shown);
    if (address === null) return false;
    this.#push({ tag: "a", href: address, nodes: [shown] }, shown.length);
    return true;
  }
}

const isEdge = (character) => SPACE.test(character) || PUNCTUATION.test(character);
