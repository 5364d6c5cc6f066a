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

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The studio does not answer.", "Look whether Bub still runs; this page goes on by itself as soon as it does.");
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let given = null;
  try {
    given = JSON.parse(text);
  } catch {
    given = null;
  }
  if (answer.ok && given !== null) return given;
  const error = new ApiError(answer.status, given?.error ?? `The studio answered with ${answer.status}.`, given?.help);
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
  return ask(path, { method: "POST", headers: { "Content-Type": "application/json", "X-Bub": "1" }, body: JSON.stringify(body), ...options });
}

/** One part of a path. */
export const part = (text) => encodeURIComponent(text);
