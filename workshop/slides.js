// Starts the slides. A classic script, so that they open from disk.
(() => {
  const root = document.documentElement, KEY = "roofline-slides-theme";
  const stored = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const show = (theme) => { root.dataset.theme = theme; };
  show(stored() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));

  // What is too tall for its slide: parts stand in two columns, then text is drawn smaller. A live
  // figure first gets narrower, which makes it lower, then smaller; what grows when it answers
  // scrolls.
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  async function fit(slide) {
    const body = slide?.querySelector(".body"), live = body?.querySelector(".shown.live");
    if (!body || slide.dataset.fitted) return;
    slide.dataset.fitted = "now";
    const tall = () => body.scrollHeight > body.clientHeight + 1;
    if (live) {
      for (const [width, zoom] of [["", 1], ["900px", 1], ["", 0.9], ["800px", 1], ["800px", 0.85],
        ["", 0.85]]) {
        live.style.width = width;
        live.style.zoom = zoom;
        await frames();
        if (!tall()) break;
      }
    } else {
      slide.classList.toggle("two", tall());
      for (let zoom = 0.95; tall() && zoom > 0.5; zoom -= 0.05) body.style.zoom = zoom;
    }
    slide.dataset.fitted = "done";
  }
  const fitCurrent = () => fit(Reveal.getCurrentSlide());

  // Keys that a figure has go to it while it has the focus; Escape gives them back to the slides.
  addEventListener("keydown", (event) => {
    const figure = document.activeElement?.closest?.(".rl");
    if (event.key === "Escape" && figure) {
      document.activeElement.blur();
      event.stopPropagation();
    }
  }, true);

  Reveal.initialize({
    width: 1100, height: 619, margin: 0, minScale: 0.2, maxScale: 4, center: false,
    hash: true, respondToHashChanges: true, slideNumber: "c/t", transition: "none",
    backgroundTransition: "none", controls: false, overview: true, viewDistance: 100,
    help: true, pdfSeparateFragments: false, plugins: globalThis.RevealNotes ? [RevealNotes] : [],
    keyboardCondition: () => !document.activeElement?.closest?.(".rl"),
  }).then(() => {
    Reveal.addKeyBinding({ keyCode: 68, key: "D", description: "Light or dark" }, () => {
      show(root.dataset.theme === "dark" ? "light" : "dark");
      try { localStorage.setItem(KEY, root.dataset.theme); } catch { /* nothing is kept */ }
    });
    Reveal.on("slidechanged", fitCurrent);
    Promise.resolve(globalThis.MathJax?.startup?.promise).then(fitCurrent);
  });
})();
