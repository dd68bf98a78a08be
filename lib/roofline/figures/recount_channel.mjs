// The kernel's end of a figure, in JupyterLab: an anywidget without a view. The figure stands in the
// cell's HTML, which every front end shows; this hands it the channel, by the token both have.
export default {
  initialize({ model }) {
    const hand = () => document.dispatchEvent(new CustomEvent("rl-kernel",
      { detail: { token: model.get("token"), model } }));
    // A figure that is drawn later, or once more in another view of the notebook, asks.
    document.addEventListener("rl-kernel?", hand);
    hand();
    return () => document.removeEventListener("rl-kernel?", hand);
  },
};
