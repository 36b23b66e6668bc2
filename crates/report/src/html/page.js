"use strict";
// Conveniences only, since the page is complete without a script: the number of the cell under the pointer, zoom along the
// time axis, and tables that can be sorted.
(() => {
  document.documentElement.classList.add("js");
  const tip = document.getElementById("tip");
  const time = (ns) => {
    const [unit, name] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
    return (ns / unit).toFixed(ns >= 1e9 ? 3 : 1) + " " + name;
  };
  const hide = () => { tip.hidden = true; };
  const within = (least, value, most) => Math.min(most, Math.max(least, value));

  // Zoom: all pictures over time show the same columns, from view[0] up to view[1].
  const plots = [...document.querySelectorAll("svg.plot[data-columns]")].map((svg) => ({
    svg,
    inner: svg.querySelector(".time"),
    ground: svg.querySelector(".ground"),
    axis: svg.querySelector(".when"),
    left: Number(svg.dataset.left),
    width: Number(svg.dataset.plot),
    whole: svg.querySelector(".when")?.innerHTML,
  }));
  const columns = Number(plots[0]?.svg.dataset.columns ?? 1);
  const column_ns = Number(plots[0]?.svg.dataset.ns ?? 0) / columns;
  const FEWEST = Math.min(8, columns);
  let view = [0, columns];
  const is_whole = () => view[0] === 0 && view[1] === columns;
  const zooms = [];
  // The marks are like those of the page's axes without zoom: round steps, and one unit for all marks.
  const axis = (plot) => {
    const [from, until] = [view[0] * column_ns, view[1] * column_ns];
    const length = until - from;
    const [unit, name] = length >= 2e9 ? [1e9, "s"] : length >= 2e6 ? [1e6, "ms"] : [1e3, "µs"];
    const rough = length / unit / 9;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((digit) => digit * power >= rough * 0.999) * power;
    const decimals = step >= 1 ? 0 : Math.ceil(-Math.log10(step));
    const y = Number(plot.ground.getAttribute("height"));
    let marks = "";
    for (let mark = Math.ceil(from / unit / step - 1e-9); mark * step <= until / unit * (1 + 1e-9); mark++) {
      const x = (plot.left + (mark * step * unit - from) / length * plot.width).toFixed(1);
      const text = (mark * step).toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
      marks += `<path d="M${x} ${y}v5"/><text x="${x}" y="${y + 16}">${text}</text>`;
    }
    return `${marks}<text x="${plot.left + plot.width / 2}" y="${y + 33}">time since the start, ${name}</text>`;
  };
  const show = (from, until) => {
    const length = within(FEWEST, Math.round(until - from), columns);
    from = within(0, Math.round(from), columns - length);
    view = [from, from + length];
    hide();
    for (const plot of plots) {
      const box = plot.inner.getAttribute("viewBox").split(" ");
      plot.inner.setAttribute("viewBox", `${from} 0 ${length} ${box[3]}`);
      plot.axis.innerHTML = is_whole() ? plot.whole : axis(plot);
      for (const hole of plot.svg.querySelectorAll(".hole")) {
        const at = Number(hole.dataset.c);
        hole.style.display = at < from || at >= from + length ? "none" : "";
        hole.setAttribute("x", plot.left + (at - from) / length * plot.width);
        hole.setAttribute("width", plot.width / length);
      }
    }
    for (const zoom of zooms) {
      zoom.reset.disabled = zoom.out.disabled = is_whole();
      zoom.into.disabled = length <= FEWEST;
      zoom.says.textContent = is_whole() ? "drag over a picture to zoom" : `${time(from * column_ns)} to ${time((from + length) * column_ns)} (Esc: whole run)`;
    }
  };
  const whole = () => show(0, columns);
  const scaled = (factor) => {
    const [middle, half] = [(view[0] + view[1]) / 2, (view[1] - view[0]) / 2 * factor];
    show(middle - half, middle + half);
  };
  const moved = (part) => show(view[0] + part * (view[1] - view[0]), view[1] + part * (view[1] - view[0]));
  const KEYS = { "+": () => scaled(0.5), "=": () => scaled(0.5), "-": () => scaled(2), 0: whole };
  for (const plot of plots) {
    const { svg, ground } = plot;
    const at = (event) => {
      const box = ground.getBoundingClientRect();
      return within(0, (event.clientX - box.left) / box.width, 1);
    };
    let begun = null;
    let picked = null;
    const ended = () => { picked?.remove(); begun = picked = null; };
    svg.addEventListener("pointerdown", (event) => {
      const box = ground.getBoundingClientRect();
      // On a touch screen, dragging scrolls the page.
      if (event.button !== 0 || event.pointerType === "touch" || event.clientX < box.left || event.clientX > box.right) return;
      begun = at(event);
    });
    svg.addEventListener("pointermove", (event) => {
      if (begun === null) return;
      const [low, high] = [Math.min(begun, at(event)), Math.max(begun, at(event))];
      if (!picked) {
        if ((high - low) * plot.width < 4) return;
        picked = document.createElementNS(svg.namespaceURI, "rect");
        picked.setAttribute("class", "picked");
        picked.setAttribute("height", ground.getAttribute("height"));
        svg.append(picked);
        // From now on the picture gets the pointer's events even outside of it. The pointer of a test cannot be captured.
        try { svg.setPointerCapture(event.pointerId); } catch { /* zoom works without the capture */ }
      }
      picked.setAttribute("x", plot.left + low * plot.width);
      picked.setAttribute("width", (high - low) * plot.width);
    });
    svg.addEventListener("pointerup", (event) => {
      if (picked) {
        const length = view[1] - view[0];
        const [low, high] = [Math.min(begun, at(event)), Math.max(begun, at(event))];
        show(Math.floor(view[0] + low * length), Math.ceil(view[0] + high * length));
      }
      ended();
    });
    svg.addEventListener("pointercancel", ended);
    svg.addEventListener("dblclick", whole);
    svg.parentElement.addEventListener("keydown", (event) => {
      const arrow = { ArrowLeft: -0.25, ArrowRight: 0.25 }[event.key];
      const does = KEYS[event.key] ?? (arrow && !is_whole() ? () => moved(arrow) : null);
      if (!does || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      does();
    });
    // Pictures that are folded up have no buttons: they zoom with the others.
    if (svg.closest("details")) continue;
    const caption = svg.closest("figure").querySelector("figcaption");
    const bar = document.createElement("div");
    bar.className = "zoom";
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Zoom");
    const button = (text, name, does) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.setAttribute("aria-label", name);
      made.addEventListener("click", does);
      bar.append(made);
      return made;
    };
    const into = button("+", "zoom in", () => scaled(0.5));
    const out = button("−", "zoom out", () => scaled(2));
    const reset = button("whole run", "show the whole run", whole);
    const says = document.createElement("span");
    bar.append(says);
    caption.append(bar);
    zooms.push({ into, out, reset, says });
  }
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !is_whole()) whole();
  });
  if (plots.length) whole();

  for (const rows of document.querySelectorAll(".pointed")) {
    for (const row of rows.children) {
      const title = row.firstElementChild;
      const name = title.textContent;
      // The browser's tooltip (the title) and ours would cover one another.
      title.remove();
      let values = null;
      row.addEventListener("pointermove", (event) => {
        if (event.buttons) return hide();
        values ??= row.dataset.v.split(",");
        const box = row.getBoundingClientRect();
        const part = (event.clientX - box.left) / box.width;
        const column = within(view[0], Math.floor(view[0] + part * (view[1] - view[0])), view[1] - 1);
        const number = Number(values[column]) / (rows.dataset.tenths ? 10 : 1);
        tip.textContent = `${name}, ${time(column * column_ns)} to ${time((column + 1) * column_ns)}: ${rows.dataset.says.replace("{}", number.toLocaleString("en"))}`;
        tip.hidden = false;
        const half = tip.offsetWidth / 2;
        tip.style.left = within(4, event.clientX - half, innerWidth - 2 * half - 4) + "px";
        tip.style.top = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 + "px" : event.clientY + 18 + "px";
      });
      row.addEventListener("pointerleave", hide);
    }
  }
  addEventListener("scroll", hide, { passive: true });

  // In browsers without scroll timelines: marks boxes that have more content to the right.
  if (!CSS.supports("animation-timeline: scroll()")) {
    const mark = (box) => {
      const more = box.scrollLeft + box.clientWidth < box.scrollWidth - 2;
      box.classList.toggle("more", more);
      box.classList.toggle("all", !more);
    };
    for (const box of document.querySelectorAll(".scroll")) {
      box.addEventListener("scroll", () => mark(box), { passive: true });
      new ResizeObserver(() => mark(box)).observe(box);
    }
  }

  for (const table of document.querySelectorAll(".sortable")) {
    const body = table.tBodies[0];
    const key = (row, at) => {
      const cell = row.cells[at];
      const text = cell.dataset.v ?? cell.textContent;
      const number = parseFloat(text.replace(/,/g, ""));
      return Number.isNaN(number) ? text : number;
    };
    [...table.tHead.rows[0].cells].forEach((heading, at) => {
      let sign = 1;
      heading.classList.add("sorts");
      const sort = () => {
        sign = -sign;
        for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
        const rows = [...body.rows].map((row) => [key(row, at), row]);
        rows.sort(([a], [b]) => sign * (a < b ? -1 : a > b ? 1 : 0));
        body.append(...rows.map(([, row]) => row));
      };
      // The button is inside the heading and does not replace it, because the heading has to say how its column is sorted. Enter
      // and Space click the button, and the click also reaches the heading.
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.addEventListener("click", sort);
    });
  }
})();
