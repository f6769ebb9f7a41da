// What a page lacks for readers of screens and for the keyboard, a sentence each: names, headings, landmarks, tables.
const shown = text => (text ?? "").replace(/\s+/g, " ").trim();
const all = selector => [...document.querySelectorAll(selector)];
const called = element => `${element.tagName.toLowerCase()} "${shown(element.textContent).slice(0, 30)}"`;
const labels = (element, attribute) => (element.getAttribute(attribute) ?? "").split(/\s+/).filter(Boolean);
const text = id => shown(document.getElementById(id)?.textContent);
const referred = element => labels(element, "aria-labelledby").map(text).join(" ");
const name = element => shown(element.getAttribute("aria-label")) || shown(referred(element))
  || shown([...(element.labels ?? [])].map(label => label.textContent).join(" ")) || shown(element.getAttribute("alt"))
  || shown(element.matches("svg") ? element.querySelector(":scope > title")?.textContent : element.textContent);
const wrong = [];
const refuse = (elements, what) => elements.forEach(element => wrong.push(`${called(element)}: ${what}`));

if (!/^[a-z]{2,3}(-|$)/.test(document.documentElement.lang)) wrong.push("html: has no lang");
if (!shown(document.title)) wrong.push("html: has no title");

const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [role=link]";
refuse(all(controls).filter(element => !name(element)), "is a control without a name");
const hidden = element => element.closest("[aria-hidden=true]") || element.getAttribute("alt") === "";
refuse(all("img, svg, [role=img]").filter(element => !hidden(element) && !name(element)), "is an image without a name");
refuse(all("svg:not([role=img])").filter(element => !hidden(element)), "is a drawing without the role of an image");

const headings = all("h1, h2, h3, h4, h5, h6"), level = heading => Number(heading.tagName[1]);
if (headings.filter(heading => level(heading) == 1).length != 1) wrong.push("headings: one h1 is needed");
refuse(headings.filter((heading, i) => level(heading) > (i ? level(headings[i - 1]) : 0) + 1), "skips a level of headings");
refuse(headings.filter(heading => !shown(heading.textContent)), "is an empty heading");

if (all("main").length != 1) wrong.push("landmarks: one main is needed");
if (!all("nav").length) wrong.push("landmarks: a nav is needed");
refuse(all("nav, [role=region]").filter(element => !shown(element.getAttribute("aria-label")) && !shown(referred(element))),
  "is a landmark without a name");
refuse(all("body > *").filter(element => !element.matches("header, main, footer, nav, .skip")), "is outside of landmarks");

refuse(all("th").filter(cell => !["col", "row", "colgroup", "rowgroup"].includes(cell.scope)), "is a header without scope");
refuse(all("table").filter(table => !table.querySelector("thead th")), "has no header");
refuse(all("table").filter(table => !table.caption && !table.closest("[role=region]")), "is a table without a name");
refuse(all("tbody tr").filter(row => !row.querySelector("th[scope=row]")), "is a row without a header");

refuse(all("ul, ol").filter(list => [...list.children].some(child => !child.matches("li"))), "has other children than items");
refuse(all("dl > div").filter(pair => !pair.querySelector("dt") || !pair.querySelector("dd")), "has no term or no figure");
refuse(all("details").filter(element => !element.firstElementChild?.matches("summary")), "does not begin with a summary");
const ids = all("[id]").map(element => element.id);
refuse(all("[id]").filter(element => ids.indexOf(element.id) != ids.lastIndexOf(element.id)), "has no id of its own");
for (const attribute of ["aria-labelledby", "aria-describedby"]) {
  refuse(all(`[${attribute}]`).filter(element => labels(element, attribute).some(id => !document.getElementById(id))),
    `refers to nothing by ${attribute}`);
}
refuse(all("[tabindex]").filter(element => element.tabIndex > 0), "is out of the order of the keyboard");
const scrolls = element => element.scrollWidth > element.clientWidth && /auto|scroll/.test(getComputedStyle(element).overflowX);
refuse(all("main *").filter(element => scrolls(element) && element.tabIndex < 0), "scrolls, but not by keyboard");
return wrong;
