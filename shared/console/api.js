// Calls the deployment that the page comes from. The operator's key is kept in memory only.

import { parseExactly } from "./exact_json.js";

const ROOT = new URL("..", import.meta.url);
const API_VERSION = "2025-02-15";
const METRICS_VERSION = "2023-10-01";
const PUBLISH_VERSION = "2024-06-01"; // of namespace topics

/** The deployment refused a request, or can't be reached (status 0). */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Api {
  #token;

  /** token: the admin key, or an access token of Entra ID. */
  constructor(token) {
    this.#token = token;
  }

  /** Return all topics with the states of their subscriptions, and what is wrong with each. */
  async topics(signal) {
    const found = await this.#send("GET", "status/topics", { signal });
    const troubles = new Map(found.troubles.map((each) => [`${each.topic}/${each.subscription}`, each]));
    for (const topic of found.value) {
      for (const each of topic.subscriptions) each.trouble = troubles.get(`${topic.name}/${each.name}`);
    }
    return found;
  }

  /** Return queues, timers and what is wrong; also if the deployment is unhealthy. */
  async health(signal) {
    const answer = await request("GET", "status/health", { signal });
    const found = await answer.clone().json().catch(() => ({}));
    if (!found.status) throw await refusal(answer);
    return found;
  }

  /** Return the document at an ARM path; path begins with a slash. */
  get(path, query, signal) {
    return this.#arm("GET", path, { query, signal });
  }

  /** Run an action of a resource. */
  act(path, action, body) {
    return this.#arm("POST", `${path}/${action}`, { body });
  }

  metrics(path, query, signal) {
    const all = { "api-version": METRICS_VERSION, ...query };
    return this.#arm("GET", `${path}/providers/Microsoft.Insights/metrics`, { query: all, signal });
  }

  /** Return a page of the dead letters in a blob, the first without a token; the numbers of their events are as `parseExactly` has them. */
  deadLetters(path, blob, token) {
    const query = { blob, $skipToken: token };
    return this.#arm("GET", `${path}/deadLetters/records`, { query, parse: parseRecords });
  }

  /** Say which subscriptions of a topic an event, given as JSON, matches; nothing is published. */
  matches(topic, event) {
    return this.#arm("POST", `${topic.id}/matches`, { body: `[${event}]` });
  }

  /** Publish an event, given as JSON, to a topic, with a key that the operator may read. */
  async publish(topic, event) {
    const { key1 } = await this.act(topic.id, "listKeys");
    const [namespace, name] = topic.name.split(".").map(encodeURIComponent);
    const answer = name
      ? await request("POST", `namespaces/${namespace}/topics/${name}:publish`, {
          query: { "api-version": PUBLISH_VERSION },
          headers: { Authorization: `SharedAccessKey ${key1}`, "Content-Type": CLOUD_EVENTS },
          body: `[${event}]`,
        })
      : await request("POST", `topics/${namespace}/api/events`, {
          headers: {
            "aeg-sas-key": key1,
            "Content-Type": topic.inputSchema.startsWith("Cloud") ? CLOUD_EVENTS : JSON_TYPE,
          },
          body: `[${event}]`,
        });
    if (!answer.ok) throw await refusal(answer);
  }

  #arm(method, path, { query, body, ...options }) {
    const segments = path.slice(1).split("/").map(encodeURIComponent);
    return this.#send(method, segments.join("/"), {
      query: { "api-version": API_VERSION, ...query },
      ...options,
      ...(body && { body: typeof body === "string" ? body : JSON.stringify(body), headers: { "Content-Type": JSON_TYPE } }),
    });
  }

  async #send(method, path, { parse = JSON.parse, ...options }) {
    const headers = { ...options.headers, Authorization: `Bearer ${this.#token}` };
    const answer = await request(method, path, { ...options, headers });
    if (!answer.ok) throw await refusal(answer);
    return answer.status === 204 ? null : parse(await answer.text());
  }
}

const LONGEST_READ = 20_000; // milliseconds
const JSON_TYPE = "application/json";
const CLOUD_EVENTS = "application/cloudevents-batch+json";

function parseRecords(text) {
  const found = JSON.parse(text);
  const exact = parseExactly(text).value;
  return { ...found, value: found.value.map((each, number) => ({ ...each, event: exact[number].event })) };
}

async function request(method, path, { query, headers, body, signal }) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) url.searchParams.set(name, value);
  }
  try {
    const timely = method === "GET" ? AbortSignal.any([AbortSignal.timeout(LONGEST_READ), ...(signal ? [signal] : [])]) : signal;
    return await fetch(url, { method, headers, body, signal: timely, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The deployment does not answer.");
  }
}

async function refusal(answer) {
  try {
    const { error } = await answer.json();
    return new Refused(answer.status, error.message);
  } catch {
    return new Refused(answer.status, `The deployment answered ${answer.status}.`);
  }
}
