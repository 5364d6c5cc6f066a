// The search of the site: every word counts by how rare it is and where it is found (BM25). It reads `words.js`, so it
// needs no server.

const STOP = new Set("a an and are as at be by can do does for from has have how i if in into is it its my no not of on or that the their then there this to was what when where which who why will with you your".split(" "));
const CHINESE = /[\u3400-\u9fff]+/g;

// A word without its ending: "asked" and "asks" are "ask".
const stem = (word) => {
  if (/\d/.test(word) || word.length < 4) return word;
  return word.replace(/ies$/, "y").replace(/(?<=[a-z]{3})(?:ing|ed|es|s|e)$/, "").replace(/([b-df-hj-km-np-rt-z])\1$/, "$1");
};

const STEMMED = new Set([...STOP].map(stem));

// The words of a text, in their order; Chinese has no spaces, so each two signs of it are one.
const words = (text) => {
  const found = [];
  for (const [part] of text.toLowerCase().matchAll(/[\u3400-\u9fff]+|[\p{L}\p{N}]+/gu)) {
    if (part.match(CHINESE)) for (let at = 0; at < Math.max(part.length - 1, 1); at++) found.push(part.slice(at, at + 2));
    else found.push(stem(part));
  }
  return found;
};

// Who asks in letters wants a page in English first, and who asks in Chinese one in Chinese.
const inChinese = (text) => text.search(CHINESE) >= 0;
const OTHER_LANGUAGE = 0.3;

// What people call what these pages call otherwise.
const CALLED = [
  [/\bdead.?letters?\b/, "message set aside inbox"],
  [/\b(approve|approval|permission)s?\b/, "approve ask"],
  [/\bdocker\b/, "docker container"],
  [/\b(crash|crashed)\b/, "crash killed"],
  [/\bprices?\b/, "cost"],
  [/\bservers\b/, "machines"],
  [/\b(login|credentials?|secrets?)\b/, "key secret token"],
];
const translate = (question) => CALLED.reduce((text, [word, plain]) => text.replace(word, plain), question.toLowerCase());

const count = (list, into = new Map(), weight = 1) => {
  for (const word of list) into.set(word, (into.get(word) ?? 0) + weight);
  return into;
};

// Pages that seldom answer a question: the list of all pages, and the history of this one.
const SELDOM = { "docs/index.html": 0.3, "CHANGELOG.html": 0.4, "docs/decisions.html": 0.5 };
const WEIGHTS = { page: 4, head: 6, text: 1 };

// A title without the number of its step, which says nothing of what it is about.
const withoutNumbers = (title) => title.replace(/(^|: )\d+\. /g, "$1");

const makeIndex = (sections) => {
  const known = sections.map((section) => {
    const [page, head] = [section.page, section.head].map(withoutNumbers);
    const titles = words((head || page).split(": ").at(-1)).filter((word) => !STEMMED.has(word));
    const text = words(section.text);
    const times = count(text);
    count(words(head), times, WEIGHTS.head);
    count(words(page), times, WEIGHTS.page);
    return { section, titles, times, length: text.length };
  });
  const average = known.reduce((sum, one) => sum + one.length, 0) / known.length;
  const spread = new Map();
  for (const { times } of known) for (const word of times.keys()) spread.set(word, (spread.get(word) ?? 0) + 1);
  return { known, average, spread };
};

// How well a section answers. One that has all words comes before one that has some of them again and again.
const rate = (one, asked, { known, average, spread }, last) => {
  let sum = 0, met = 0, weights = 0;
  for (const word of asked) {
    let times = one.times.get(word) ?? 0;
    let seen = spread.get(word) ?? 0;
    if (word === last) for (const [other, more] of one.times) if (other !== word && other.startsWith(word)) times += more / 2;
    const rare = Math.log(1 + (known.length - seen + 0.5) / (seen + 0.5)) / (/^\d+$/.test(word) ? 3 : 1);
    weights += rare;
    if (!times) continue;
    met += rare;
    sum += rare * (times * 2.2) / (times + 1.2 * (0.6 + 0.4 * one.length / average));
  }
  if (!met) return 0;
  const titled = asked.filter((word) => one.titles.includes(word)).length / Math.max(asked.length, one.titles.length);
  return sum * (met / weights) ** 2 * (1 + 1.5 * titled) * (one.section.head ? 1 : 1.3);
};

const search = (typed, index) => {
  const question = translate(typed);
  const all = words(question);
  const kept = [...new Set(all.filter((word) => !STEMMED.has(word)))];
  const asked = kept.length ? kept : [...new Set(all)];
  if (!asked.length) return [];
  const last = /\s$/.test(question) ? null : asked.at(-1);
  const pages = new Map();
  for (const one of index.known) {
    const score = rate(one, asked, index, last);
    if (!score) continue;
    const page = one.section.at.split("#")[0];
    if (!pages.has(page)) pages.set(page, []);
    pages.get(page).push({ score, section: one.section });
  }
  // A page is as good as its best section, and a little better for each other that fits.
  const rated = [...pages.values()]
    .map((hits) => hits.sort((a, b) => b.score - a.score))
    .map((hits) => {
      const page = hits[0].section.at.split("#")[0];
      const language = page.endsWith(".zh.html") === inChinese(typed) ? 1 : OTHER_LANGUAGE;
      const often = (SELDOM[page] ?? 1) * language;
      return { hits, score: often * hits.reduce((sum, hit, at) => sum + hit.score / 4 ** at, 0), asked };
    })
    .sort((a, b) => b.score - a.score);
  return rated.filter(({ score }) => score > rated[0].score / 8);
};

// What a reader sees.

const piece = (text, asked) => {
  const parts = [...text.matchAll(/[\u3400-\u9fff]|[\p{L}\p{N}]+/gu)];
  const hit = parts.find(([word]) => asked.some((one) => stem(word.toLowerCase()).startsWith(one) || one.startsWith(word)));
  const from = Math.max((hit?.index ?? 0) - 60, 0);
  const begin = from ? text.indexOf(" ", from) + 1 : 0;
  const end = begin + 200 < text.length ? text.lastIndexOf(" ", begin + 200) : text.length;
  return (begin ? "… " : "") + text.slice(begin, end).trimEnd() + (end < text.length ? " …" : "");
};

const marked = (text, asked) => {
  const shown = document.createDocumentFragment();
  for (const part of text.split(/([\u3400-\u9fff]+|[\p{L}\p{N}]+)/u)) {
    const is = part && asked.some((one) => stem(part.toLowerCase()) === one || (CHINESE.test(part) && part.includes(one)));
    CHINESE.lastIndex = 0;
    const node = is ? document.createElement("mark") : document.createTextNode(part);
    if (is) node.textContent = part;
    shown.append(node);
  }
  return shown;
};

const show = (found, root) => {
  const list = document.querySelector("#found");
  list.replaceChildren(...found.slice(0, 20).map(({ hits, asked }) => {
    const item = document.createElement("li");
    const [best, ...others] = hits;
    const link = (section, text) => {
      const made = document.createElement("a");
      made.href = root + section.at;
      made.append(marked(text, asked));
      return made;
    };
    const title = link(best.section, best.section.head ? `${best.section.page}: ${best.section.head}` : best.section.page);
    const text = document.createElement("p");
    text.append(marked(piece(best.section.text, asked), asked));
    item.append(title, text);
    const more = others.filter(({ section, score }) => section.head && score > best.score / 3).slice(0, 3);
    if (more.length) {
      const also = document.createElement("p");
      also.className = "also";
      more.forEach(({ section }, at) => also.append(at ? " · " : "", link(section, section.head)));
      item.append(also);
    }
    return item;
  }));
};

if (typeof document !== "undefined") {
  const root = document.documentElement.dataset.content_root;
  const field = document.querySelector("#ask input");
  const status = document.querySelector("#count");
  let index;
  const ask = () => {
    index ??= makeIndex(window.bubWords);
    const found = search(field.value, index);
    status.textContent = !field.value.trim() ? "" : found.length === 1 ? "1 page" : `${found.length} pages`;
    show(found, root);
  };
  field.value = new URLSearchParams(location.search).get("q") ?? "";
  field.addEventListener("input", () => {
    history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
    ask();
  });
  document.querySelector("#ask").addEventListener("submit", (event) => event.preventDefault());
  ask();
  field.focus();
} else {
  globalThis.searchSite = (sections) => {
    const index = makeIndex(sections);
    return (question) => search(question, index);
  };
}
