"use strict";
// A number such as 2.1e-12 is not broken at its hyphen, nor x = 0.5 or an error after its sign.
for (const place of document.querySelectorAll("p, dd")) {
  const parts = place.textContent.split(/(\b\w{1,3} = [^\s,]+,?|± \S+|\S*\de-\d\S*)/), whole = (text) => Object.assign(document.createElement("span"), { className: "whole", textContent: text });
  if (parts.length > 1) place.replaceChildren(...parts.map((text, i) => (i % 2 ? whole(text) : text)));
}
// Tables: a click on a header sorts by it, numbers as numbers.
for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const read = (row) => row.cells[column].textContent.trim();
      const order = (a, b) => {
        const [x, y] = [parseFloat(read(a)), parseFloat(read(b))];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || read(a).localeCompare(read(b));
        return x - y;
      };
      const rows = [...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
      body.replaceChildren(...rows);
    });
  });
}
