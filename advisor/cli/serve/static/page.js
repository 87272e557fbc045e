// What the page does beyond plain links and forms: answers appear without a new page, the address
// follows, and texts can be copied. Without this script every control still works.
"use strict";

{ // names of its own
const status = document.getElementById("status");
let asking = null; // the request under way
let typing = 0;

const say = (text) => { if (status) status.textContent = text; };

// What a sighted visitor has to see too: the server is gone, or its answer was no page of ours.
function gone(place, again) {
  say("The server did not answer.");
  const card = document.createElement("div");
  card.className = "card error gone";
  card.setAttribute("role", "alert");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Try again";
  button.addEventListener("click", again);
  card.append("The server did not answer. What is below is the answer to the last question. ", button);
  place.querySelector(".gone")?.remove();
  for (const old of place.children) old.classList.add("stale");
  place.prepend(card);
}

async function text(got) { // a busy or refusing server answers in plain text
  const found = await got.text();
  if (got.headers.get("content-type")?.startsWith("text/html")) return found;
  const sentence = document.createElement("p");
  sentence.textContent = found;
  return `<div class="card error" role="alert"><h1>That was not answered</h1>${sentence.outerHTML}</div>`;
}

// The question goes along to the other tabs, and comes back from them.
const SHARED = new Set(["names", "what", "text", "name", "form", "users_within", "price", "watts", "launch", "off", "on",
  "k", "speculation", "parsers", "key", "host", "port", "image"]);
function carry() {
  const source = document.querySelector("main form");
  if (!source) return;
  const params = new URLSearchParams(location.search);
  for (const field of source.elements) {
    if (!field.name || field.type === "file") continue;
    if (field.value.trim() && field.value.trim() !== field.dataset.default) params.set(field.name, field.value.trim());
    else params.delete(field.name);
  }
  for (const name of [...params.keys()]) if (SHARED.has(name) || /_\d$/.test(name)) params.delete(name);
  for (const link of document.querySelectorAll("[data-carry]")) link.search = params.toString();
}
document.addEventListener("input", carry);

function mark(name) {
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  if (name) document.getElementById(`f-${name}`)?.setAttribute("aria-invalid", "true");
}

function parse(html) {
  return new DOMParser().parseFromString(html, "text/html").body;
}

// ---- the answer

const form = document.getElementById("question");
const answer = document.getElementById("answer");

function query(source) {
  const params = new URLSearchParams();
  for (const [name, value] of new FormData(source)) {
    const field = source.elements[name];
    if (typeof value === "string" && value.trim() && value.trim() !== field.dataset?.default) {
      params.set(name, value.trim());
    }
  }
  return params;
}

async function show(params, { push = "push", focus = null } = {}) {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const search = params.toString();
  const before = new Map([".curve", ".changes"].map((name) => [name, answer.querySelector(name)]));
  answer.classList.add("busy");
  try {
    const got = await fetch(`${form.dataset.part}?${search}`, { signal });
    const made = parse(await text(got));
    if (signal.aborted) return;
    for (const [name, old] of before) { // the last ones stay until the next are there
      const holder = made.querySelector(`${name}[data-load]`);
      if (holder && old && !old.dataset.load) {
        const copied = old.cloneNode(true);
        copied.classList.add("stale");
        holder.replaceChildren(copied);
      }
    }
    answer.replaceChildren(...made.childNodes);
    const title = answer.querySelector("[data-title]")?.dataset.title;
    document.title = `${title ?? "That question cannot be answered"} · advisor`;
    say(answer.querySelector("h1")?.textContent ?? "");
    if (push === "push") history.pushState(null, "", `/?${search}`);
    if (push === "replace") history.replaceState(null, "", `/?${search}`);
    mark(answer.querySelector("[data-wrong]")?.dataset.wrong);
    carry();
    if (focus) document.getElementById(focus)?.focus();
    refresh(answer);
    await later(signal);
  } catch (error) {
    if (error.name !== "AbortError") gone(answer, () => show(params, { push }));
  } finally {
    if (!signal.aborted) answer.classList.remove("busy");
  }
}

let opened = false; // the table of figures, kept so from one answer to the next
document.addEventListener("toggle", (event) => {
  if (event.target.id === "figures") opened = event.target.open;
}, true);

// The parts that take longer: the curve first, then what would change the answer.
async function later(signal) {
  for (const holder of document.querySelectorAll("[data-load]")) {
    const got = await fetch(holder.dataset.load, { signal });
    const made = parse(await got.text());
    if (signal?.aborted) return;
    const figures = made.querySelector("#figures");
    if (figures) figures.open = opened;
    holder.replaceWith(...made.childNodes);
    startReading();
  }
}

if (form && answer) {
  form.addEventListener("submit", (event) => { event.preventDefault(); show(ask()); });
  form.addEventListener("change", () => { clearTimeout(typing); show(ask()); });
  form.addEventListener("input", (event) => {
    if (event.target.tagName !== "INPUT") return;
    clearTimeout(typing);
    typing = setTimeout(() => show(ask(), { push: "replace" }), 300);
  });
  addEventListener("popstate", () => {
    const params = new URLSearchParams(location.search);
    for (const field of form.elements) {
      if (field.name) field.value = params.get(field.name) ?? field.dataset.default;
    }
    show(params, { push: "no" });
  });
  later(null).catch(() => say("The curve could not be loaded."));
}

function ask() {
  const params = query(form);
  const chosen = new URLSearchParams(location.search).get("form");
  if (chosen) params.set("form", chosen);
  return params;
}

// ---- links within the answer

document.addEventListener("click", async (event) => {
  const plain = !event.defaultPrevented && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  const link = event.target.closest("a[data-live]");
  if (link && plain && form && answer) {
    event.preventDefault();
    show(new URL(link.href).searchParams, { push: "replace", focus: link.id });
  }
  const button = event.target.closest("[data-copy], [data-link]");
  if (button) await copy(button);
});

async function copy(button) {
  const source = document.getElementById(button.dataset.copy ?? "status");
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy ? source.textContent : location.href);
  } catch { // no permission, or no secure context: select it, so that the keyboard can copy
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
    return;
  }
  button.textContent = "Copied";
  say("Copied");
  setTimeout(() => { button.textContent = label; }, 1500);
}

// The values of the curve at a load, by touch and by keyboard: those of the table below it.
function read(slider) {
  const table = document.querySelector("#figures table");
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const cells = [...table.tBodies[0].rows[slider.value].cells].map((cell) => cell.textContent);
  const text = `${cells[0]} requests: ${cells[1]}; ${cells.slice(2).map((cell, i) => `${names[i + 2]} ${cell}`).join("; ")}`;
  slider.setAttribute("aria-valuetext", text);
  slider.parentElement.querySelector("output").textContent = text;
}

function startReading() {
  const slider = document.getElementById("f-read");
  if (!slider) return;
  const load = document.getElementById("f-concurrency")?.value;
  const rows = [...document.querySelectorAll("#figures tbody tr")];
  slider.value = Math.max(0, rows.findIndex((row) => row.cells[0].textContent.replace(",", "") === load));
  slider.parentElement.hidden = false;
  slider.addEventListener("input", () => read(slider));
  read(slider);
}

function refresh(root) {
  for (const button of root.querySelectorAll("[data-copy], [data-link]")) button.hidden = false;
}
refresh(document);
startReading();

// ---- forms that send a text or files: the result appears below, the text is kept in the address

const sender = document.querySelector("form[data-send]");
const result = document.getElementById("result");

async function send(quiet) {
  say("Working");
  result.classList.add("busy");
  try {
    const got = await fetch(sender.dataset.send, { method: "POST", body: new FormData(sender) });
    const made = parse(await text(got));
    result.replaceChildren(...made.childNodes);
    mark(result.querySelector("[data-wrong]")?.dataset.wrong);
    refresh(result);
    keep();
    if (!quiet) result.querySelector("h2, h1")?.scrollIntoView({ block: "start", behavior: "auto" });
    say(result.querySelector("h2, h1")?.textContent ?? "");
  } catch {
    gone(result, () => send(quiet));
  } finally {
    result.classList.remove("busy");
  }
}

// The part of an address after # is never sent: a text with a secret in it is not even put there.
function keep() {
  const params = new URLSearchParams();
  const secret = result.querySelector("[data-secret]") !== null;
  for (const [name, value] of new FormData(sender)) {
    const field = sender.elements[name];
    if (typeof value === "string" && value.trim() && !(secret && field.tagName === "TEXTAREA")) params.set(name, value);
  }
  const text = params.toString();
  history.replaceState(null, "", text.length < 60000 ? `#${text}` : location.pathname + location.search);
}

// A file for the sheet of a text: dropped on it, or chosen. It is read here and sent as text.
const area = sender?.querySelector("textarea[required]");
const chooser = document.getElementById("f-file");
async function take(file) {
  if (!file) return;
  area.value = await file.text();
  if (sender.elements.name) sender.elements.name.value = file.name;
  send(false);
}
if (area && chooser) {
  chooser.parentElement.hidden = false;
  chooser.addEventListener("change", () => take(chooser.files[0]));
  area.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
}

// The tables of the static copy: rows that hold all of the words, and their tables.
const filter = document.getElementById("f-filter");
if (filter) {
  filter.parentElement.hidden = false;
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const card of document.querySelectorAll("section.card:has(.cells)")) {
      const rows = [...card.querySelectorAll("tbody tr")];
      const title = card.querySelector("h2").textContent;
      for (const row of rows) row.hidden = !words.every((word) => `${title} ${row.cells[0].textContent}`.toLowerCase().includes(word));
      card.hidden = rows.every((row) => row.hidden);
    }
  });
}

if (sender && result) {
  sender.addEventListener("submit", (event) => { event.preventDefault(); send(false); });
  const params = new URLSearchParams(location.hash.slice(1));
  let filled = false;
  for (const [name, value] of params) {
    const field = sender.elements[name];
    if (field && field.type !== "file") { field.value = value; filled ||= field.tagName === "TEXTAREA" || name === "name_1"; }
  }
  if (filled) send(true);
}
carry();
}
