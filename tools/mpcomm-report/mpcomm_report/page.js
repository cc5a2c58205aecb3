"use strict";
// Zoom and tooltips of mpcomm-report's page. The chart is complete without.
(() => {
  const svg = document.getElementById("chart");
  const span = +svg.dataset.span, left = +svg.dataset.left, width = +svg.dataset.width;
  const bottom = +svg.dataset.bottom, ns = svg.namespaceURI;
  const axis = document.getElementById("axis");
  const labels = document.getElementById("labels");
  const groups = [...svg.querySelectorAll(".z")];
  const marks = [...labels.querySelectorAll("[data-t]")];
  // A box is labelled by the first line of its tooltip, or as the page did.
  const boxes = [...svg.querySelectorAll(".z rect")].map(r => ({
    x: +r.getAttribute("x"), w: +r.getAttribute("width"), kind: r.classList[0][0],
    y: +r.getAttribute("y") + r.getAttribute("height") / 2 + 4,
    text: r.querySelector("title").textContent })).filter(b => b.kind !== "x");
  let from = 0, to = span;

  function put(parent, name, attributes, text) {
    const e = document.createElementNS(ns, name);
    for (const k in attributes) e.setAttribute(k, attributes[k]);
    if (text !== undefined) e.textContent = text;
    parent.append(e);
  }
  function tick(t, step) {
    for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
      if (step >= unit * 0.1 || name === "µs")
        return (t / unit).toFixed(
          Math.min(6, Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9)))) + " " +
          name;
  }
  function draw() {
    const k = span / (to - from), x0 = from / span * width;
    const place = x => left + (x - x0) * k;
    for (const g of groups) g.setAttribute("transform", `scale(${k} 1) translate(${-x0} 0)`);
    const raw = (to - from) / 8, unit = 10 ** Math.floor(Math.log10(raw));
    const step = unit * [1, 2, 5, 10].find(m => m * unit >= raw * 0.999);
    axis.replaceChildren();
    for (let i = Math.ceil(from / step - 1e-6); i * step <= to + 1e-6 * step; i++) {
      const x = place(i * step / span * width).toFixed(2);
      put(axis, "line", { class: "grid", x1: x, x2: x, y1: 34, y2: bottom });
      put(axis, "text", { class: "tick", x, y: bottom + 14, "text-anchor": "middle" },
        tick(i * step, step));
    }
    labels.replaceChildren(...marks);
    for (const m of marks) {
      const x = place(m.dataset.t / span * width);
      m.style.display = x < left - 1 || x > left + width + 1 ? "none" : "";
      m.setAttribute("x", x + (m.getAttribute("text-anchor") ? -4 : 4));
    }
    for (const b of boxes) {
      const a = Math.max(left, place(b.x)), e = Math.min(left + width, place(b.x + b.w));
      const room = Math.floor((e - a - 6) / 6.3);
      if (room < 3) continue;
      let text = b.text.split("\n")[0];
      if (b.kind === "w" && text.length > room) text = text.slice("waits ".length);
      if (b.kind === "m") text = text + ", " + (b.text.split("\n")[2] || "").split(",")[0];
      if (b.kind === "m" && text.length > room)
        text = (b.text.split("\n")[2] || "").split(",")[0] || text;
      if (room < Math.min(text.length, 4)) continue;
      if (text.length > room) text = text.slice(0, room - 1) + "…";
      put(labels, "text", { class: "l" + b.kind, x: a + 3, y: b.y }, text);
    }
  }
  function zoom(factor, at) {
    const length = Math.min(span, Math.max(span * 1e-5, (to - from) / factor));
    from = Math.min(span - length, Math.max(0, at - (at - from) / (to - from) * length));
    to = from + length;
    requestAnimationFrame(draw);
  }
  function time(event) {
    const r = svg.getBoundingClientRect();
    const x = (event.clientX - r.left) / r.width * svg.viewBox.baseVal.width;
    return from + (x - left) / width * (to - from);
  }
  const tools = document.getElementById("tools");
  const button = (text, action) => {
    const b = document.createElement("button");
    b.textContent = text;
    b.onclick = action;
    tools.append(b);
  };
  button("Zoom in", () => zoom(2, (from + to) / 2));
  button("Zoom out", () => zoom(0.5, (from + to) / 2));
  button("Whole step", () => zoom(1e-9, 0));
  const hint = document.createElement("span");
  hint.textContent = "Double-click zooms in, Ctrl and wheel zoom, dragging moves.";
  tools.append(hint);
  svg.addEventListener("dblclick", e => zoom(3, time(e)));
  svg.addEventListener("wheel", e => {
    if (!e.ctrlKey && !e.metaKey) return;
    e.preventDefault();
    zoom(Math.exp(-e.deltaY / 300), time(e));
  }, { passive: false });
  let held = null;
  svg.addEventListener("pointerdown", e => { held = time(e); });
  addEventListener("pointerup", () => { held = null; });
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  svg.addEventListener("pointermove", e => {
    if (held !== null && to - from < span) {
      const shift = Math.min(span - to, Math.max(-from, held - time(e)));
      from += shift;
      to += shift;
      requestAnimationFrame(draw);
    }
    const box = e.target.closest && e.target.closest(".z rect");
    if (box && box.firstElementChild) { // ours instead of the browser's
      box.tip = box.firstElementChild.textContent;
      box.firstElementChild.remove();
    }
    tip.hidden = !(box && box.tip);
    if (tip.hidden) return;
    tip.textContent = box.tip;
    tip.style.left = Math.min(e.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = (e.clientY + 18 + tip.offsetHeight > innerHeight
      ? e.clientY - tip.offsetHeight - 10 : e.clientY + 18) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  draw();
})();
