// Cells that run inside the page. Nothing is loaded before the reader's first click; then a worker
// starts Python from files of this site. Each run is a fresh one: what the cell needs of the cells
// above it runs first, as they are then, so nothing hangs on the order of clicks.
(() => {
  const data = document.getElementById("rl-cells");
  if (!data) return;
  const {cells, places, megabytes, bytes, library} = JSON.parse(data.textContent);
  const boxes = [...document.querySelectorAll(".rl-runs")];
  const able = ["Worker", "WebAssembly", "DecompressionStream"].every((name) => name in window);
  if (!able || boxes.length !== places.length) return;
  const script = new URL("run.worker.mjs", document.currentScript.src);

  function make(tag, className, text = "", attributes = {}) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }
  // Inside the code's own box: the theme draws it as one with the fold below it.
  const put = (box, element) => box.querySelector(".cell_input").append(element);
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

  if (location.protocol === "file:" || globalThis.courseWithoutPython) {
    // A browser gives a page from disk no worker and no .wasm file; a copy of the site may leave
    // Python out.
    put(boxes[0], make("p", "rl-run-note d-print-none",
      "Cells of this page can be edited and run where the site is served " +
      "(python3 course.py serve), and in JupyterLab (python3 course.py lab)."));
    return;
  }

  const now = [...cells]; // the cells' texts as they are
  let worker = null, busy = null;

  class Cell {
    constructor(box, place) {
      this.place = place;
      this.input = box.querySelector(".cell_input");
      this.title = cells[place].trim().split("\n")[0];
      this.code = this.out = null;
      this.bar = make("div", "rl-run d-print-none");
      this.go = make("button", "", "", {type: "button"});
      this.stop = make("button", "", "Stop", {type: "button", hidden: ""});
      this.reset = make("button", "", "Reset", {type: "button", hidden: ""});
      this.load = make("progress", "", "", {"aria-label": "Loading Python", max: 1, hidden: ""});
      this.status = make("span", "rl-run-status", "", {role: "status"});
      this.name("Run here");
      this.bar.append(this.go, this.stop, this.reset, this.load, this.status);
      put(box, this.bar);
      this.go.addEventListener("click", () => this.run());
      this.stop.addEventListener("click", () => end(
        "Stopped. What this run had found is lost, and Python with it; your code stays. " +
        "The next run starts Python again."));
      this.reset.addEventListener("click", () => this.restore());
    }

    name(text) {
      this.go.textContent = text;
      this.go.setAttribute("aria-label", `${text}: ${this.title}`);
    }

    edit() {
      if (this.code) return;
      const hint = make("p", "rl-run-hint d-print-none", "Ctrl + Enter runs, Esc leaves the code.",
        {id: `rl-run-hint-${this.place}`});
      this.code = make("textarea", "rl-run-code d-print-none", "", {
        "aria-label": `Code: ${this.title}`, "aria-describedby": hint.id, wrap: "off",
        spellcheck: "false", autocapitalize: "off", autocomplete: "off", autocorrect: "off"});
      this.code.value = cells[this.place];
      const fit = () => { this.code.rows = this.code.value.split("\n").length + 1; };
      fit();
      this.code.addEventListener("input", () => {
        now[this.place] = this.code.value;
        fit();
      });
      this.code.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey || event.shiftKey)) {
          event.preventDefault();
          this.run();
        } else if (event.key === "Escape") {
          this.go.focus();
        }
        event.stopPropagation(); // the theme listens for keys, such as those of its search
      });
      this.bar.before(this.code, hint);
      this.input.classList.add("rl-run-open");
      this.name("Run");
      this.reset.hidden = false;
    }

    run() {
      if (busy) return;
      this.edit();
      this.out?.remove();
      this.out = null;
      busy = this;
      for (const cell of all) cell.go.setAttribute("aria-disabled", "true");
      this.stop.hidden = false;
      if (!worker) start(this);
      else this.status.textContent = "Running …";
      worker.postMessage({cells: now, place: this.place});
    }

    /** An element of what the run gave, below the cell and above what the page itself shows. */
    shown(className, label) {
      if (!this.out) {
        this.out = make("div", "rl-run-out d-print-none");
        this.bar.after(this.out);
      }
      const text = make("pre", className, "", {tabindex: "0", role: "group", "aria-label": label});
      this.out.append(text);
      return text;
    }

    text(text) {
      const last = this.out?.lastElementChild ?? this.shown("", "What your run shows");
      last.append(text);
    }

    before(earlier, left) {
      const edited = earlier.filter((place) => now[place] !== cells[place]).length;
      this.notes = [];
      if (earlier.length)
        this.notes.push(`what it needs of ${count(earlier.length, "earlier cell")} ran first` +
          (edited ? `, ${edited === earlier.length ? "" : `${edited} of them `}as you edited ` +
            `${edited === 1 ? "it" : "them"}` : ""));
      if (left.length) this.notes.push(`left out, since it does not run here: ${left.join(", ")}`);
    }

    done(error, seconds) {
      if (error.length) this.shown("rl-run-error", "Why it stopped").textContent = error.join("\n");
      const time = seconds < 0.1 ? "" : ` in ${seconds.toPrecision(2)} s`;
      free(`${error.length ? "It stopped" : "Ran"}${time}` +
        (this.notes.length ? `; ${this.notes.join("; ")}.` : "."));
    }

    restore() {
      if (busy === this) end("");
      now[this.place] = cells[this.place];
      for (const added of [this.code, this.input.querySelector(".rl-run-hint"), this.out])
        added?.remove();
      this.code = this.out = null;
      this.input.classList.remove("rl-run-open");
      this.reset.hidden = true;
      this.name("Run here");
      this.status.textContent = "The page's own code again.";
      this.go.focus();
    }
  }

  function free(text) {
    if (busy.stop === document.activeElement) busy.go.focus();
    busy.stop.hidden = busy.load.hidden = true;
    busy.status.textContent = text;
    busy = null;
    for (const cell of all) cell.go.removeAttribute("aria-disabled");
  }

  function end(text) {
    worker.terminate();
    worker = null;
    free(text);
  }

  function start(cell) {
    cell.status.textContent = `Starting Python in this page (${megabytes} MB from this site) …`;
    cell.load.value = 0;
    cell.load.hidden = false;
    const mine = worker = new Worker(script, {type: "module"});
    let up = false;
    const fail = (why) => end(up ? `Python ended (${why}). The next run starts it again.`
      : "Python could not be loaded from this site. The page reads without it.");
    worker.onmessage = ({data: said}) => {
      if (worker !== mine) return; // what a stopped one had still said
      if (said.what === "loaded") busy.load.value = said.share;
      else if (said.what === "started") {
        up = busy.load.hidden = true;
        busy.status.textContent = "Running …";
      } else if (said.what === "first") busy.before(said.earlier, said.left);
      else if (said.what === "text") busy.text(said.text);
      else if (said.what === "done") busy.done(said.error, said.seconds);
      else fail(said.why);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (worker === mine) fail(event.message ?? "it gave no reason");
    };
    worker.postMessage({library, bytes});
  }

  const all = boxes.map((box, k) => new Cell(box, places[k]));
})();
