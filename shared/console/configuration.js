// Draws what a subscription is configured as, and the command that would change it.

import { h } from "./preact.mjs";

const COMPARED = {
  NumberGreaterThan: ">",
  NumberGreaterThanOrEquals: ">=",
  NumberLessThan: "<",
  NumberLessThanOrEquals: "<=",
  BoolEquals: "=",
};
const NULLS = { IsNullOrUndefined: "is null", IsNotNull: "is not null" };
// Delivery attributes that are no headers, and what they are called.
const LIMITS = {
  "webhook-max-requests": ["Requests at a time", "--max-requests"],
  "webhook-max-rate": ["Requests a second", "--max-rate"],
};
const LISTED = { In: "in", InRange: "in", BeginsWith: "begins with", EndsWith: "ends with", Contains: "contains" };

/** The configuration of a subscription as ARM answers it, the same for topics and for topics of namespaces. */
export function read({ properties }) {
  const push = properties.deliveryConfiguration?.push;
  const found = push ?? properties;
  const filter = properties.filtersConfiguration ?? properties.filter ?? {};
  const to = (found.deliveryWithResourceIdentity ?? found).destination ?? {};
  const buried =
    found.deadLetterWithResourceIdentity ?? found.deadLetterDestinationWithResourceIdentity ?? found;
  return {
    kind: to.endpointType,
    to: to.properties ?? {},
    types: filter.includedEventTypes ?? [],
    begins: filter.subjectBeginsWith ?? "",
    ends: filter.subjectEndsWith ?? "",
    isCaseSensitive: Boolean(filter.isSubjectCaseSensitive),
    arrays: Boolean(filter.enableAdvancedFilteringOnArrays),
    filters: filter.advancedFilters ?? filter.filters ?? [],
    attempts: push ? push.maxDeliveryCount : properties.retryPolicy?.maxDeliveryAttempts,
    minutes: push ? minutesIn(push.eventTimeToLive) : properties.retryPolicy?.eventTimeToLiveInMinutes,
    deadLetters: buried.deadLetterDestination?.properties ?? null,
    schema: properties.eventDeliverySchema,
    expires: properties.expirationTimeUtc,
    labels: properties.labels ?? [],
  };
}

/** The minutes of a duration such as P1DT2H3M; undefined if it is written otherwise. */
function minutesIn(text) {
  const found = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?)?$/.exec(text ?? "");
  if (!found) return undefined;
  const [days, hours, minutes] = found.slice(1).map((each) => Number(each ?? 0));
  return (days * 24 + hours) * 60 + minutes;
}

/** An advanced filter as `pushgrid` reads it, such as `data.total > 10`. */
function expressionOf({ operatorType, key, value, values }) {
  if (NULLS[operatorType]) return `${key} ${NULLS[operatorType]}`;
  if (COMPARED[operatorType]) return `${key} ${COMPARED[operatorType]} ${value}`;
  const [, not, form] = /^(?:Number|String)(Not)?(.+)$/.exec(operatorType);
  const items = values.map((each) =>
    Array.isArray(each) ? each.join("..") : JSON.stringify(each),
  );
  return `${key} ${not ? "not " : ""}${LISTED[form]} (${items.join(", ")})`;
}

/** A subject and a type that the filter takes, as far as they can be read from it; empty: any. */
export function examplesOf({ types, begins, ends, filters }) {
  const first = (key) =>
    filters.find((each) => each.key.toLowerCase() === key && /^String(?!Not)/.test(each.operatorType))?.values[0];
  return {
    type: types[0] ?? first("eventtype") ?? first("type") ?? "",
    subject: begins + ends || (first("subject") ?? ""),
  };
}

export function configuration(found, { topic, subscription }) {
  const { to, kind, filters } = found;
  const headers = (to.deliveryAttributeMappings ?? []).filter((each) => !limitOf(each));
  return [
    h(
      "dl",
      null,
      fact("Destination", destination(kind, to)),
      fact("Event types", found.types.join(", ") || "all"),
      fact("Subject begins with", found.begins || "anything"),
      fact("Subject ends with", found.ends || "anything"),
      (found.begins || found.ends) && fact("Subjects are compared", found.isCaseSensitive ? "exactly" : "whatever their case"),
      fact("Filters", filters.length ? list(filters.map(expressionOf)) : "none"),
      found.arrays && fact("Filters on arrays", "one of the values is enough"),
      fact("Delivery schema", found.schema),
      fact("Attempts", [found.attempts, " at most", found.minutes !== undefined && `, within ${found.minutes} min`]),
      fact("Batches", batches(to)),
      fact("Headers", headers.length ? list(headers.map(header)) : "none"),
      (to.deliveryAttributeMappings ?? [])
        .filter(limitOf)
        .map((each) => fact(limitOf(each)[0], `${each.properties.value} at most, of all processes together`)),
      fact("Dead letters", found.deadLetters ? `container ${found.deadLetters.blobContainerName}` : "none: events that end are dropped"),
      found.expires && fact("Expires", found.expires),
      found.labels.length > 0 && fact("Labels", found.labels.join(", ")),
    ),
    h("p", null, "This command changes it; leave out what stays as it is:"),
    h("pre", { tabIndex: 0, "aria-label": "Command" }, commandOf(found, topic, subscription)),
  ];
}

function fact(name, text) {
  return h("div", { key: name }, h("dt", null, name), h("dd", null, text));
}

function list(items) {
  return h("ul", { class: "plain" }, items.map((each) => h("li", { key: each }, h("code", null, each))));
}

function destination(kind, { endpointBaseUrl, queueName, resourceId, azureActiveDirectoryApplicationIdOrUri: app }) {
  if (kind === "StorageQueue") return `queue ${queueName} of ${resourceId.split("/").at(-1)}`;
  return [h("span", { class: "url" }, endpointBaseUrl), app && `, with tokens for ${app}`];
}

function batches({ maxEventsPerBatch: most, preferredBatchSizeInKilobytes: size }) {
  if (!most || most === 1) return "one event in a request";
  return `up to ${most} events in a request${size ? `, of about ${size} KB` : ""}`;
}

function limitOf({ name }) {
  return LIMITS[name.toLowerCase()];
}

function header({ name, type, properties: { value, isSecret, sourceField } }) {
  if (type === "Dynamic") return `${name}: from ${sourceField}`;
  return `${name}: ${isSecret ? "(secret)" : value}`;
}

/** The command that makes the configuration what it is. */
function commandOf(found, topic, subscription) {
  const { to } = found;
  const headers = (to.deliveryAttributeMappings ?? []).filter((each) => !each.properties.isSecret);
  const options = [
    ["--event-types", found.types.join(",")],
    ["--subject-begins-with", found.begins],
    ["--subject-ends-with", found.ends],
    ...found.filters.map((each) => ["--filter", expressionOf(each)]),
    ["--max-attempts", found.attempts],
    ["--time-to-live", found.minutes && `${found.minutes}m`],
    ["--batch", to.maxEventsPerBatch],
    ["--batch-kilobytes", to.preferredBatchSizeInKilobytes],
    ...headers.map(({ name, type, properties: { value, sourceField } }) =>
      limitOf({ name }) ? [limitOf({ name })[1], value] :
      type === "Dynamic" ? ["--header-from", `${name}=${sourceField}`] : ["--header", `${name}=${value}`],
    ),
    ["--dead-letter-container", found.deadLetters?.blobContainerName],
    ...found.labels.map((each) => ["--label", each]),
    ["--expires", found.expires],
  ];
  const given = options.filter(([, value]) => value).map(([name, value]) => `${name} ${quoted(String(value))}`);
  const command = `pushgrid subscription update ${subscription} --topic ${topic}`;
  return [command, found.isCaseSensitive && "--case-sensitive", ...given].filter(Boolean).join(" \\\n  ");
}

/** A text as one word of a shell. */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
