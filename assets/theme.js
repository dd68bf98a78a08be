// Mends to the theme. A classic script, so that it also runs on pages opened from disk.
(() => {
  // Names for the theme's own controls, so that what a screen reader says is what the eye sees.
  for (const control of document.querySelectorAll(".search-button-field, summary[aria-label]"))
    control.removeAttribute("aria-label");

  const buttons = document.querySelectorAll(".theme-switch-button");
  function name() {
    for (const button of buttons) {
      const text = button.textContent.replace(/\s+/g, " ").trim();
      const want = text ? `${text} (color mode)` : "Color mode";
      if (button.getAttribute("aria-label") !== want) button.setAttribute("aria-label", want);
    }
  }
  addEventListener("load", () => {
    name();
    for (const button of buttons)
      new MutationObserver(name).observe(button, {attributes: true, childList: true, subtree: true});
  });

  const sidebar = document.querySelector("#pst-primary-sidebar");
  sidebar?.setAttribute("role", "navigation");
  sidebar?.setAttribute("aria-label", "Sidebar");

  // The theme listens to the first button of each kind only, which sits in a header that this
  // book hides. The buttons that readers see pass their clicks on to it.
  for (const side of ["primary", "secondary"]) {
    const [first, ...others] = document.querySelectorAll(`.${side}-toggle`);
    for (const button of others) button.addEventListener("click", () => first.click());
  }

  // Paper is light: dark colours would print pale. Both events, since a preview and an emulation
  // send only one of them.
  let theme;
  const paper = matchMedia("print");
  const print = (on) => {
    const root = document.documentElement.dataset;
    if (on && root.theme === "dark") [theme, root.theme] = [root.theme, "light"];
    else if (!on && theme) [root.theme, theme] = [theme, undefined];
  };
  paper.addEventListener("change", () => print(paper.matches));
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(paper.matches));
})();
