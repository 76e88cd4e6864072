"use strict";
// The workbench: texts are kept as they are typed, errors are marked at their place, one solve at a time is watched.
const token = new URLSearchParams(location.search).get("token"), find = (id) => document.getElementById(id);
const ask = async (verb, body, query = "") => {
  const options = { headers: { "X-Token": token } };
  if (body !== undefined) Object.assign(options, { method: "POST", body: body instanceof Blob ? body : JSON.stringify(body) });
  const answer = await fetch(`/api/${verb}${query}`, options), found = await answer.json();
  if (found.refused) throw new Error(found.refused);
  return found;
};
const told = (error) => { find("error").textContent = error.message || error; };
const name = () => find("name").value.trim();
const lines = () => find("text").value.split("\n");
let kept = 0, table = "", shown = 0, watching = 0;

function mark(found) {
  const back = document.querySelector(".editor pre");
  back.replaceChildren();
  find("error").textContent = found.error || "";
  find("error").dataset.line = found.line || "";
  find("error").dataset.column = found.column || "";
  lines().forEach((line, i) => {
    if (i + 1 !== found.line) { back.append(line + "\n"); return; }
    const from = Math.min(found.column > 1 ? found.column - 1 : 0, Math.max(line.length - 1, 0)), sign = document.createElement("mark");
    sign.textContent = (line.slice(from).match(/^\w+|^.+/) || [" "])[0]; // a word, or all that follows
    back.append(line.slice(0, from), sign, line.slice(from + sign.textContent.length), "\n");
  });
  scroll();
}

function scroll() {
  const back = document.querySelector(".editor pre");
  back.scrollTop = find("text").scrollTop;
  back.scrollLeft = find("text").scrollLeft;
}

async function keep() {
  const text = find("text").value;
  localStorage.setItem("name", name());
  await ask("keep", { name: name(), text });
  find("kept").textContent = "kept";
  mark(await ask("check", { name: name(), text }));
}

function typed() {
  find("kept").textContent = "";
  clearTimeout(kept);
  kept = setTimeout(() => keep().catch(told), 300);
}

async function open(kind, what) {
  if (kind === "files" && what.endsWith(".csv")) { await columns(what, new Blob([])); return; }
  const { text } = await ask("text", undefined, `?kind=${kind}&name=${encodeURIComponent(what)}`);
  find("text").value = text;
  find("name").value = kind === "files" || kind === "examples" ? what : kind === "new" ? `my-${what}.toml` : `${what}.toml`;
  await keep();
  await list();
}

async function list() {
  const found = await ask("listing"), nav = document.querySelector("nav");
  nav.replaceChildren();
  for (const [kind, words] of [["files", "this folder"], ["new", "begin with"], ["examples", "examples"], ["catalogue", "the catalogue"]]) {
    nav.append(Object.assign(document.createElement("h2"), { textContent: words }));
    for (const one of found[kind]) {
      const button = Object.assign(document.createElement("button"), { textContent: one, type: "button" });
      button.addEventListener("click", () => open(kind, one).catch(told));
      nav.append(button);
    }
  }
}

function show(what, number, files) {
  shown = number;
  const at = (file) => `/answer/${encodeURIComponent(what)}/${file}?token=${token}`;
  Object.assign(find("answer"), { src: at("index.html"), hidden: false });
  find("whose").dataset.what = what;
  find("files").replaceChildren("save as: ");
  const names = { "index.html": "page", "model.safetensors": "safetensors", "record.json": "record", "solution.csv": "table", "fitted.csv": "fitted table",
    "filled.csv": "filled table", "solve.py": "Python" }, stem = what.replace(/\.[a-z]+$/, "");
  const link = (words, href, file) => find("files").append(Object.assign(document.createElement("a"), { textContent: words, href, download: file }), " ");
  if (what.endsWith(".toml")) link("TOML", `data:text/plain;charset=utf-8,${encodeURIComponent(find("text").value)}`, what);
  for (const file of files) link(names[file], at(file), `${stem}-${file}`);
}

async function watch() {
  clearTimeout(watching);
  const job = await ask("state"), busy = job.state === "running";
  find("cancel").hidden = !busy;
  find("solve").disabled = busy;
  const last = job.events.at(-1);
  const how = job.sentence.includes(": ") ? job.sentence : `${job.what}: ${job.state}`;
  find("state").textContent = job.state === "idle" ? "" : job.state === "done" ? how :
    `${job.what}: ${job.state}` + (last && last.estimate ? `, error estimate ${last.estimate.toExponential(1)}` : "");
  find("state").classList.toggle("bad", job.state === "failed" || (job.state === "done" && !job.reached));
  find("state").dataset.state = job.state;
  find("steps").replaceChildren(...job.events.slice(-40).map((event) => Object.assign(document.createElement("li"), { textContent: event.words })));
  find("steps").scrollTop = find("steps").scrollHeight;
  if (job.error) told(job.error);
  if (job.state === "done" && job.number !== shown) { show(job.what, job.number, job.files); await list(); }
  // An answer that is not to the work in hand looks it.
  const old = !find("answer").hidden && job.number !== shown;
  find("answer").classList.toggle("old", old);
  Object.assign(find("whose"), { hidden: !old, textContent: old ? `Below is the earlier answer to ${find("whose").dataset.what}.` : "" });
  if (busy) watching = setTimeout(() => watch().catch(told), 300);
}

async function columns(what, content) {
  table = what;
  const found = await ask("table", content, `?name=${encodeURIComponent(what)}`);
  for (const [id, first] of [["target", []], ["time", ["row number"]]]) {
    find(id).replaceChildren(...first.map((text) => new Option(text, "")), ...found.columns.map((text) => new Option(text, text)));
  }
  find("columns").hidden = false;
  await list();
}

const begin = (verb, body) => ask(verb, body).then(watch).catch(told);
find("text").addEventListener("input", typed);
find("text").addEventListener("scroll", scroll);
find("name").addEventListener("change", typed);
find("solve").addEventListener("click", () => keep().then(() => begin("solve", { name: name(), tol: Number(find("tol").value) })).catch(told));
find("cancel").addEventListener("click", () => begin("cancel", {}));
find("file").addEventListener("change", () => { const [file] = find("file").files; if (file) columns(file.name, file).catch(told); });
find("drop").addEventListener("dragover", (event) => event.preventDefault());
find("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  const [file] = event.dataTransfer.files;
  if (file) columns(file.name, file).catch(told);
});
for (const verb of ["fit", "impute"]) find(verb).addEventListener("click", () => begin("fit", {
  verb, name: table, target: find("target").value, features: find("features").value, time: find("time").value,
}));
list().then(async () => {
  const before = localStorage.getItem("name"), files = [...document.querySelectorAll("nav button")].map((b) => b.textContent);
  if (before && files.includes(before)) await open("files", before);
  await watch();
}).catch(told);
