// Bars of the class's guesses, read again every 2 s. What comes is text and counts: it is set as
// text, never as markup.
const board = document.querySelector("main.board");
const find = (id) => document.getElementById(id);
const [which, where, parts, state] = ["which", "where", "parts", "state"].map(find);
const xsrf = document.querySelector('meta[name="xsrf"]').content;
const EVERY = 2000; // ms
const ids = [...which.options].map((option) => option.value);
let shown = "";
let timer = 0;

const made = (name, words = "", kind = "") => {
  const node = document.createElement(name);
  node.textContent = words;
  node.className = kind;
  return node;
};

const guesses = (n) => `${n} ${n === 1 ? "guess" : "guesses"}`;

function panel(part) {
  const section = made("section");
  const head = made("h2", part.label);
  head.append(" ", made("span", guesses(part.n), "n"));
  section.append(head);
  if (!part.bars.length) {
    section.append(made("p", `Bars are shown from ${guesses(part.least)} on.`));
    return section;
  }
  const table = made("table", "", `bars ${part.kind}`);
  const most = Math.max(1, ...part.bars.map(([, n]) => n));
  for (const [label, n] of part.bars) {
    const row = made("tr");
    const name = made("th", label);
    name.scope = "row";
    const cell = made("td", "", "bar");
    const bar = made("div");
    bar.style.width = `${(100 * n) / most}%`;
    cell.append(bar);
    row.append(name, cell, made("td", n ? String(n) : "", "n"));
    table.append(row);
  }
  section.append(table);
  return section;
}

async function read() {
  clearTimeout(timer);
  const asked = which.value;
  try {
    const reply = await fetch(`${board.dataset.guesses}?id=${encodeURIComponent(asked)}`, {
      headers: { "X-XSRFToken": xsrf }, cache: "no-store", signal: AbortSignal.timeout(8000),
    });
    const text = await reply.text();
    if (asked !== which.value) return; // another one was chosen meanwhile, and is being read
    if (!reply.ok) {
      state.textContent = reply.status === 403 ? "You are logged out. Open this page again."
        : "The class service does not answer. The bars are those of before.";
    } else {
      state.textContent = "";
      if (text !== shown) {
        const data = JSON.parse(text);
        where.textContent = [data.section, data.page].filter(Boolean).join(" · ");
        parts.replaceChildren(...data.parts.map(panel));
        shown = text;
      }
    }
  } catch {
    state.textContent = "The class service does not answer. The bars are those of before.";
  }
  clearTimeout(timer);
  timer = setTimeout(read, EVERY);
}

function choose(id) {
  which.value = ids.includes(id) ? id : "";
  history.replaceState(null, "", which.value ? `#${which.value}` : location.pathname);
  find("before").disabled = which.selectedIndex === 0;
  find("after").disabled = which.selectedIndex === ids.length - 1;
  read();
}

which.addEventListener("change", () => choose(which.value));
find("before").addEventListener("click", () => choose(ids[which.selectedIndex - 1]));
find("after").addEventListener("click", () => choose(ids[which.selectedIndex + 1]));
addEventListener("hashchange", () => choose(location.hash.slice(1)));
choose(location.hash.slice(1));
