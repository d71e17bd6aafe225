"use strict";
/* Sorting tables, and the viewer of episodes. Texts are written as text nodes only: nothing that a
   model said is ever read as HTML. */

const byId = (id) => document.getElementById(id);

function make(tag, words, ...inner) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(words || {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...inner.filter((part) => part !== null && part !== undefined));
  return node;
}

/* ---------------------------------------------------------------- sorting */

function keyOf(row, column) {
  const cell = row.cells[column];
  const number = cell.dataset.sort;
  if (number !== undefined) return Number(number);
  return cell.firstChild ? cell.firstChild.textContent.trim() : "";
}

function compareKeys(one, two) {
  if (typeof one === "number" && typeof two === "number") return one - two;
  if (typeof one === "number") return -1;
  if (typeof two === "number") return 1;
  return one.localeCompare(two, undefined, { numeric: true });
}

function sortTable(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows];
  const keys = new Map(rows.map((row) => [row, keyOf(row, column)]));
  const numbers = [...keys.values()].some((key) => typeof key === "number");
  const before = heads[column].getAttribute("aria-sort");
  const first = numbers ? "descending" : "ascending";
  const second = numbers ? "ascending" : "descending";
  const way = before === first ? second : first;
  const sign = way === "ascending" ? 1 : -1;
  const empty = (row) => (numbers && typeof keys.get(row) !== "number" ? 1 : 0);
  rows.sort((a, b) => empty(a) - empty(b) || sign * compareKeys(keys.get(a), keys.get(b)));
  table.tBodies[0].append(...rows);
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", way);
}

function makeSortable(table) {
  if (!table.tHead || table.tBodies[0].rows.length < 2) return;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    if (!head.textContent.trim()) return;
    const button = make("button", { type: "button", class: "sort" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortTable(table, column));
  });
}

/* ---------------------------------------------------------------- printing */

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const node of opened) node.open = true;
});
addEventListener("afterprint", () => {
  for (const node of opened) node.open = false;
});

/* ---------------------------------------------------------------- the viewer */

const PAGE = 50;
const FILTERS = ["endpoint", "way", "category", "lang", "stop"];

function readEpisodes(data) {
  return data.episodes.map((values, number) => {
    const one = { number };
    data.columns.forEach((name, place) => { one[name] = values[place]; });
    one.has = new Map(data.counts[one.counts].map(([name, top, below]) => [name, [top, below]]));
    return one;
  });
}

function startViewer(data, words) {
  const say = (text, values) =>
    (words[text] || text).replace(/\{(\w+)\}/g, (all, name) => (values && name in values ? values[name] : all));
  const episodes = readEpisodes(data);
  const nameOf = (text) => data.names.indexOf(text);
  const room = byId("viewer");
  let state = {};

  function stateOf(hash) {
    if (!hash.startsWith("#episodes")) return null;
    return Object.fromEntries(new URLSearchParams(hash.slice("#episodes".length + 1)));
  }

  function hashOf(values) {
    const kept = Object.entries(values).filter(([, value]) => value !== "" && value !== undefined);
    const text = new URLSearchParams(kept).toString();
    return text ? `#episodes?${text}` : "#episodes";
  }

  function change(values) {
    location.hash = hashOf({ ...state, page: "", open: "", ...values });
  }

  function fits(one) {
    if (FILTERS.some((name) => state[name] && String(one[name]) !== state[name])) return false;
    if (state.task && !one.task.includes(state.task)) return false;
    if (!state.what) return true;
    const [top, below] = one.has.get(nameOf(state.what)) || [0, 0];
    if (state.side === "below") return below > 0;
    if (state.side === "rest") return below > 0 && top === 0;
    return top > 0;
  }

  function picker(name, label, options) {
    const select = make("select", { id: `viewer-${name}` });
    select.append(make("option", { value: "" }, say("all")));
    for (const [value, text] of options) select.append(make("option", { value }, text));
    select.value = state[name] || "";
    select.addEventListener("change", () => change({ [name]: select.value }));
    return make("label", {}, make("span", {}, label), select);
  }

  function choices(name) {
    return [...new Set(episodes.map((one) => String(one[name])))].sort().map((value) => [value, value]);
  }

  function filters() {
    const labels = { endpoint: say("endpoint"), way: say("way"), category: say("category"), lang: say("language"), stop: say("ended with") };
    const form = make("form", { class: "filters" });
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const name of FILTERS) {
      const options = choices(name);
      if (options.length > 1 || state[name]) form.append(picker(name, labels[name], options));
    }
    const counts = data.names.map((name, place) => [name, data.labels[place]]);
    counts.sort((a, b) => a[1].localeCompare(b[1]));
    form.append(picker("what", say("counted for"), counts));
    if (state.what) form.append(sidePicker());
    const task = make("input", { id: "viewer-task", type: "search", value: state.task || "" });
    task.addEventListener("change", () => change({ task: task.value }));
    form.append(make("label", {}, make("span", {}, say("task")), task));
    const reset = make("button", { type: "button" }, say("show all"));
    reset.addEventListener("click", () => { location.hash = "#episodes"; });
    form.append(reset);
    return form;
  }

  function sidePicker() {
    const label = picker("side", say("which of them"), [
      ["top", say("those counted")],
      ["rest", say("those not counted")],
      ["below", say("both")],
    ]);
    const select = label.querySelector("select");
    select.options[0].remove();
    select.value = state.side || "top";
    return label;
  }

  const many = new Map();
  function several(name) {
    if (!many.has(name)) many.set(name, new Set(episodes.map((one) => one[name])).size > 1);
    return many.get(name);
  }

  function told(found) {
    const values = { n: found.length, all: episodes.length };
    const parts = [say("{n} of {all} episodes.", values)];
    if (state.what) {
      const name = nameOf(state.what);
      let top = 0;
      let below = 0;
      for (const one of found) {
        const [a, b] = one.has.get(name) || [0, 0];
        top += a;
        below += b;
      }
      parts.push(say("Together they count {top}.", { top: state.side === "below" ? say("{top} of {below}", { top, below }) : top }));
    }
    return make("p", { class: "told", role: "status" }, parts.join(" "));
  }

  function row(one) {
    const good = one.success ? "✓" : "✗";
    const link = make("a", { href: hashOf({ ...state, open: String(one.number) }) }, one.task);
    if (state.open === String(one.number)) link.setAttribute("aria-current", "true");
    const facts = [several("endpoint") ? one.endpoint : null, one.way, one.variant === "full" ? null : one.variant, one.trial ? `${say("trial")} ${one.trial + 1}` : null, one.stop];
    return make(
      "li",
      {},
      make("span", { class: one.success ? "good" : "bad", title: one.success ? say("solved") : say("not solved") }, good),
      link,
      make("span", { class: "facts" }, facts.filter(Boolean).join(" · "))
    );
  }

  function pages(found, page) {
    const last = Math.ceil(found.length / PAGE);
    if (last < 2) return null;
    const go = (to, text) => {
      const button = make("button", { type: "button" }, text);
      button.disabled = to < 0 || to >= last;
      button.addEventListener("click", () => change({ page: String(to) }));
      return button;
    };
    const where = make("span", {}, say("page {page} of {last}", { page: page + 1, last }));
    return make("div", { class: "pages" }, go(page - 1, say("previous")), where, go(page + 1, say("next")));
  }

  const text = (place) => data.texts[place];

  function quote(label, body, kind) {
    return make("div", { class: `said ${kind}` }, make("div", { class: "who" }, label), make("pre", { tabindex: "0" }, body));
  }

  function turnNode(turn, number) {
    const node = make("section", { class: "turn" }, make("h4", {}, say("request {n}", { n: number + 1 })));
    for (const [role, place] of turn.sent) node.append(quote(role, text(place), `role-${["system", "user", "assistant", "tool"].includes(role) ? role : "other"}`));
    node.append(make("h4", {}, `${say("reply {n}", { n: number + 1 })} `, make("span", { class: "facts" }, text(turn.facts))));
    node.append(quote(say("as it came"), text(turn.reply), "reply"));
    node.append(quote(say("read as"), text(turn.read), "read"));
    for (const [call, content, error] of turn.results || []) {
      node.append(quote(`${error ? say("error of") : say("result of")} ${call}`, content === null ? "" : text(content), error ? "error" : "result"));
    }
    return node;
  }

  function openEpisode(one) {
    const article = make("article", { class: "episode", tabindex: "-1", "aria-label": one.task });
    const close = make("button", { type: "button", class: "close" }, say("close"));
    close.addEventListener("click", () => change({ page: state.page, open: "" }));
    article.append(make("div", { class: "head" }, make("h3", {}, one.task), close));
    const facts = [one.endpoint, one.way, one.category, one.lang, one.variant, `${say("trial")} ${one.trial + 1}`];
    article.append(make("p", { class: "facts" }, facts.join(" · ")));
    const verdict = one.success ? say("solved") : say("not solved");
    article.append(make("p", { class: one.success ? "verdict good" : "verdict bad" }, `${verdict}; ${say("ended with")} ${one.stop}`));
    article.append(make("p", { class: "score" }, `${say("score")}: ${text(one.score)}`));
    if (!one.turns) article.append(make("p", {}, say("The messages of this episode are not in this page, which would grow too large: python -m bench show RUN TASK prints them.")));
    (one.turns || []).forEach((turn, number) => {
      const results = (turn.results || []).map(([call, content, error]) => [text(call), content, error]);
      article.append(turnNode({ ...turn, results }, number));
    });
    return article;
  }

  function draw(focus) {
    const found = episodes.filter(fits);
    const page = Math.min(Math.max(0, Number(state.page) || 0), Math.max(0, Math.ceil(found.length / PAGE) - 1));
    const list = make("ol", { class: "list", start: String(page * PAGE + 1) }, ...found.slice(page * PAGE, (page + 1) * PAGE).map(row));
    const open = episodes[Number(state.open)];
    const shown = state.open && open ? openEpisode(open) : null;
    const bar = make("div", { class: "side" }, told(found), list, pages(found, page));
    room.replaceChildren(filters(), make("div", { class: shown ? "split open" : "split" }, bar, shown));
    if (!focus) return;
    if (shown) {
      shown.focus({ preventScroll: true });
      shown.scrollIntoView({ block: "start" });
    } else byId("episodes").scrollIntoView({ block: "start" });
  }

  function follow(focus) {
    const found = stateOf(location.hash);
    if (!found) return;
    state = found;
    draw(focus);
  }

  addEventListener("hashchange", () => follow(true));
  draw(false);
  follow(true);
}

for (const table of document.querySelectorAll("main .scroll table")) makeSortable(table);
if (byId("episode-data")) {
  startViewer(JSON.parse(byId("episode-data").textContent), JSON.parse(byId("viewer-words").textContent));
}
document.documentElement.classList.add("ready");
