// Python for one page, away from the page's own thread, so that a cell without end can be stopped.
// In: {library, bytes} once, then {cells, place} for each run.
// Out: {what: "loaded", share}, "started", "first", "text", "done", "failed".

const BASE = new URL("python/", import.meta.url);
const tell = (what, more = {}) => self.postMessage({what, ...more});

/** While Pyodide starts: tells how much has come, and hands it the .wasm file unpacked. */
function counting(real, bytes) {
  let come = 0, told = 0;
  return async (address, options) => {
    const url = new URL(address, BASE);
    const packed = url.pathname.endsWith(".wasm");
    if (packed) url.pathname += ".gz";
    const answer = await real(url, options);
    if (!answer.ok) throw new Error(`${url.pathname.split("/").pop()}: ${answer.status}`);
    let body = answer.body.pipeThrough(new TransformStream({
      transform(piece, out) {
        come += piece.length;
        if (come - told > bytes / 50) tell("loaded", {share: Math.min(1, (told = come) / bytes)});
        out.enqueue(piece);
      },
    }));
    if (!packed) return new Response(body, {headers: answer.headers});
    // Some servers announce a .gz file as a compressed page, which the browser then unpacks.
    if (!answer.headers.get("content-encoding"))
      body = body.pipeThrough(new DecompressionStream("gzip"));
    return new Response(body, {headers: {"content-type": "application/wasm"}});
  };
}

async function start({library, bytes}) {
  const real = self.fetch;
  self.fetch = counting(real, bytes);
  try {
    const {loadPyodide} = await import(new URL("pyodide.mjs", BASE));
    const python = await loadPyodide({
      indexURL: BASE.href, stdin: () => null, stdout: () => {}, stderr: () => {},
    });
    const zip = await (await self.fetch(new URL(library, BASE))).arrayBuffer();
    python.unpackArchive(zip, "zip", {extractDir: "/course"});
    python.runPython("import sys; sys.path.insert(0, '/course')");
    const inpage = python.pyimport("inpage");
    tell("started");
    return {python, inpage};
  } finally {
    self.fetch = real;
  }
}

function run({python, inpage}, {cells, place}) {
  const list = python.toPy(cells);
  const page = inpage.Page(list);
  const plain = (value) => {
    const copy = value.toJs();
    value.destroy();
    return copy;
  };
  tell("first", {earlier: plain(page.earlier(place)), left: plain(page.left_out(place))});
  const began = performance.now();
  const error = plain(page.run(place, (text) => tell("text", {text})));
  tell("done", {error, seconds: (performance.now() - began) / 1000});
  page.destroy();
  list.destroy();
}

let started;
self.onmessage = async ({data}) => {
  try {
    if (data.library) await (started = start(data));
    else run(await started, data);
  } catch (error) {
    tell("failed", {why: `${error.message ?? error}`.trim().split("\n").pop()});
  }
};
