// The server's SVG on the page: read as XML, and only what a drawing needs is taken over.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "g", "rect", "circle", "ellipse", "polygon", "polyline", "path", "line", "text", "tspan", "title", "desc"]);
const ATTRIBUTES = new Set([
  "id", "class", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "dx", "dy", "d", "points", "width", "height", "viewBox",
  "text-anchor", "dominant-baseline", "textLength", "transform", "role", "tabindex", "aria-label", "aria-hidden", "data-stage", "data-from", "data-to",
]);
const policy = globalThis.trustedTypes?.createPolicy("bub-drawing", { createHTML: (text) => text });

/** Make elements of an SVG document; raises an Error if it is none. What is not known, scripts and styles above all, is left out. */
export function drawingOf(text) {
  const read = new DOMParser().parseFromString(policy ? policy.createHTML(text) : text, "image/svg+xml").documentElement;
  if (read.localName !== "svg" || read.namespaceURI !== SVG) throw new Error("The drawing cannot be read.");
  return copy(read);
}

function copy(read) {
  const made = document.createElementNS(SVG, read.localName);
  for (const { name, value } of read.attributes) {
    if (ATTRIBUTES.has(name) && (name !== "id" || value.startsWith("stage-"))) made.setAttribute(name, value);
  }
  for (const child of read.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && child.namespaceURI === SVG && ELEMENTS.has(child.localName)) made.append(copy(child));
  }
  return made;
}
