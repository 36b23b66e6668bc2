"use strict";
// Only what makes the page handier: numbers of cells that are pointed at, and tables that sort.
(() => {
  const tip = document.getElementById("tip");
  const time = (ns) => {
    const [unit, name] = ns >= 1e9 ? [1e9, "s"] : ns >= 1e6 ? [1e6, "ms"] : [1e3, "µs"];
    return (ns / unit).toFixed(ns >= 1e9 ? 3 : 1) + " " + name;
  };
  const hide = () => { tip.hidden = true; };
  for (const rows of document.querySelectorAll(".pointed")) {
    const svg = rows.ownerSVGElement;
    const read = (name) => Number(svg.dataset[name]);
    for (const row of rows.children) {
      const title = row.firstElementChild;
      const name = title.textContent;
      // Both at once would cover one another.
      title.remove();
      let values = null;
      row.addEventListener("pointermove", (event) => {
        values ??= row.dataset.v.split(",");
        const box = row.getBoundingClientRect();
        const column = Math.min(values.length - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * values.length)));
        const width = read("ns") / read("columns");
        const number = Number(values[column]) / (rows.dataset.tenths ? 10 : 1);
        tip.textContent = `${name}, ${time(column * width)} to ${time((column + 1) * width)}: ${rows.dataset.says.replace("{}", number.toLocaleString("en"))}`;
        tip.hidden = false;
        const half = tip.offsetWidth / 2;
        tip.style.left = Math.max(4, Math.min(innerWidth - 2 * half - 4, event.clientX - half)) + "px";
        tip.style.top = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 + "px" : event.clientY + 18 + "px";
      });
      row.addEventListener("pointerleave", hide);
    }
  }
  addEventListener("scroll", hide, { passive: true });
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
      // In the heading and not in its place: it stays a heading that says how its column is sorted. What a button does with
      // Enter and Space is a click, which comes to the heading.
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      heading.addEventListener("click", sort);
    });
  }
})();
