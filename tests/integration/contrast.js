// The texts of a page whose contrast to their ground is below 4.5 (WCAG 2, AA), with that contrast.
const parse = text => { const found = text.match(/[\d.]+/g).map(Number); return found.length == 3 ? [...found, 1] : found };
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
const ground = element => {
  const layers = [];
  for (let e = element; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
};
const light = color => {
  const [r, g, b] = color.slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const alpha = element => {
  let product = 1;
  for (let e = element; e; e = e.parentElement) product *= getComputedStyle(e).opacity;
  return product;
};
const hasText = element => [...element.childNodes].some(n => n.nodeType == 3 && n.data.trim());
return [...document.querySelectorAll("body *")].filter(hasText)
  .map(e => {
    const below = ground(e), color = parse(getComputedStyle(e).color);
    const above = over([color[0], color[1], color[2], color[3] * alpha(e)], below);
    const [a, b] = [light(above), light(below)].sort((x, y) => y - x);
    return [e.textContent.trim().slice(0, 30), (a + 0.05) / (b + 0.05)];
  }).filter(([, ratio]) => ratio < 4.5);
