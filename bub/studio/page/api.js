// Requests to the studio: JSON in, JSON out; what goes wrong has words and what to do about it.

export class ApiError extends Error {
  constructor(status, message, help) {
    super(message);
    this.status = status;
    this.help = help;
  }

  get isStranger() {
    return this.status === 401 || this.status === 403;
  }
}

// A browser sends the cookie to every port of this host. What a page keeps in its storage goes nowhere else: so the
// server has given that to who entered, and wants to read it beside the cookie.
let kept = null;

function keep(mark) {
  kept = mark;
  try {
    localStorage.setItem("mark", mark);
  } catch {
    // then it is known as long as this page is open
  }
}

/** What goes with all that is asked. */
export function mark() {
  try {
    return localStorage.getItem("mark") ?? kept ?? "1";
  } catch {
    return kept ?? "1";
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options, headers: { "X-Bub": mark(), ...options.headers } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The studio does not answer.", "Look whether Bub still runs; this page goes on by itself as soon as it does.");
  }
  const given = answer.headers.get("X-Bub");
  if (given) keep(given);
  if (answer.status === 204) return null;
  const text = await answer.text();
  let said = null;
  try {
    said = JSON.parse(text);
  } catch {
    said = null;
  }
  if (answer.ok && said !== null) return said;
  const error = new ApiError(answer.status, said?.error ?? `The studio answered with ${answer.status}.`, said?.help);
  if (error.isStranger) document.dispatchEvent(new CustomEvent("stranger"));
  throw error;
}

/** Read something; parameters without a value are left out. */
export function get(path, parameters = {}, options = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== ""));
  return ask(query.size ? `${path}?${query}` : path, options);
}

/** Change something: what no form of another page can send. */
export function post(path, body = {}, options = {}) {
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), ...options });
}

/** One part of a path. */
export const part = (text) => encodeURIComponent(text);
