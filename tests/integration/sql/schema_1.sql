-- What the program of schema 1 has left, killed: the schema with its own words, a message that it had
-- in hand, and one that waits for its retry. {published}: microseconds since 1970.
CREATE TABLE attempt_hours (hour INTEGER PRIMARY KEY, bytes INTEGER NOT NULL) STRICT;
CREATE TABLE attempts (
  topic TEXT NOT NULL, subscription TEXT NOT NULL, hour INTEGER NOT NULL,
  system_id TEXT NOT NULL, number INTEGER NOT NULL, ends INTEGER NOT NULL, event_id TEXT,
  made INTEGER NOT NULL, replay_of TEXT, record TEXT NOT NULL, event BLOB,
  PRIMARY KEY (topic, subscription, hour, system_id, number, ends)
) STRICT;
CREATE TABLE blobs (
  container TEXT NOT NULL, path TEXT NOT NULL, written INTEGER NOT NULL, etag TEXT NOT NULL,
  size INTEGER NOT NULL, summary TEXT, body BLOB NOT NULL, PRIMARY KEY (container, path)
) STRICT;
CREATE TABLE counts (
  span TEXT NOT NULL, topic TEXT NOT NULL, subscription TEXT NOT NULL,
  start INTEGER NOT NULL, instance TEXT NOT NULL, counts TEXT NOT NULL,
  PRIMARY KEY (span, topic, subscription, start, instance)
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
  kind TEXT NOT NULL, partition TEXT NOT NULL, name TEXT NOT NULL, etag TEXT NOT NULL,
  pause TEXT, document TEXT NOT NULL, PRIMARY KEY (kind, partition, name)
) STRICT;
INSERT INTO "documents" VALUES('topics','topic','orders','55cb37c1b6fe4432a05a3eef4624ee89',NULL,'{"keys":{"key1":"key1","key2":"key2"},"id":"/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders","name":"orders","location":"westeurope","tags":null,"properties":{"inputSchema":"EventGridSchema","publicNetworkAccess":"Enabled","disableLocalAuth":false},"metricResourceId":"metric-id"}');
INSERT INTO "documents" VALUES('eventsubscriptions','orders','crm','6074229f573743d1a35cfa0a5538eb23',NULL,'{"id":"/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders/eventSubscriptions/crm","name":"crm","topicName":"orders","topicId":"/subscriptions/s1/resourceGroups/rg/providers/Microsoft.EventGrid/topics/orders","inputSchema":"EventGridSchema","properties":{"destination":{"endpointType":"WebHook","properties":{"endpointUrl":"https://crm.example/hook","maxEventsPerBatch":1,"preferredBatchSizeInKilobytes":64}},"deliveryIdentity":null,"deadLetterDestination":null,"deadLetterIdentity":null,"filter":{"subjectBeginsWith":"","subjectEndsWith":""},"labels":null,"retryPolicy":{"maxDeliveryAttempts":null,"eventTimeToLiveInMinutes":null},"eventDeliverySchema":"EventGridSchema","expirationTimeUtc":null},"generation":"generation-1"}');
CREATE TABLE message_payloads (
  message INTEGER NOT NULL, payload TEXT NOT NULL, PRIMARY KEY (message, payload)
) STRICT, WITHOUT ROWID;
CREATE TABLE messages (
  id INTEGER PRIMARY KEY, queue TEXT NOT NULL, due INTEGER NOT NULL, stored INTEGER NOT NULL,
  run INTEGER NOT NULL, receipt INTEGER NOT NULL, receives INTEGER NOT NULL,
  deaths INTEGER NOT NULL, parked INTEGER, counts TEXT, body BLOB NOT NULL
) STRICT;
INSERT INTO "messages" VALUES(1099511627776,'deliveries',{published},{published},1,0,0,0,NULL,'[["orders", "crm", 1, {published}, 0]]',CAST('{"pushgrid":5,"origins":[["00000000000000000000000000000001",{published},null]],"events":[[0,[0,1]]],"parts":[["orders","crm","generation-1",1,[0,1]]],"packed":"eAFdjjELAjEMhf9LZ+/SOijcLjeJguLgdrZRK2pK0hNE7r+bnuIgvCXvfXnJy8RgGoOVMxOTKUWvE0h/EM8x5Uh3AXHAKNSzx5apTwJ8gsT0iAFZYBk9k9Ax14sH3nPLMcDYJEBcCG3Wwgv6XLo/Hri52lgWts+EGmzOlOpVWVhfO4/hF8dbiad2OqusU22tbUbtFQld7nZ6Qx9VyNVWvRvm7s//kqZ5GeXcMLwBQ7VRjQ=="}' AS BLOB));
INSERT INTO "messages" VALUES(1099511627777,'retries',{published},{published},0,0,0,0,NULL,NULL,CAST('{"pushgrid":5,"origins":[["00000000000000000000000000000002",{published},null]],"events":[[0,[0,1]]],"parts":[["orders","crm","generation-1",1,[0,1]]],"packed":"eAFdjjELwkAMhf/LzdpcOyh0FydRsDi41buoJ7Y5kqsg0v9uroqD8Ja89+UlLxO8qQ3OKzMziWJwOoEMJ3EcYgrUC0gJjEIDO1wzDVGALxCZHsEjC2yCYxI6p2L1wD6tOXiYmgSIM6HNWnhDl3L3x4NyqTbmheYZUYP9lWKxzQu7e+vQ/+LQ5biy1WJuS1VjbT3pqIhvU3vQG/qoQmVh1eswtX/+lzT1yyhXjeMbRKdRjw=="}' AS BLOB));
CREATE TABLE migrations (
  number INTEGER PRIMARY KEY, oldest INTEGER NOT NULL, program TEXT NOT NULL
) STRICT;
INSERT INTO "migrations" VALUES(1,1,'0.1.0');
CREATE TABLE parked (
  id INTEGER PRIMARY KEY, topic TEXT NOT NULL, subscription TEXT NOT NULL,
  pause TEXT NOT NULL, UNIQUE (topic, subscription, pause)
) STRICT;
CREATE TABLE parts (
  message INTEGER NOT NULL, topic TEXT NOT NULL, subscription TEXT NOT NULL,
  deliveries INTEGER NOT NULL, oldest INTEGER NOT NULL, given_up INTEGER NOT NULL,
  PRIMARY KEY (message, topic, subscription)
) STRICT, WITHOUT ROWID;
INSERT INTO "parts" VALUES(1099511627777,'orders','crm',1,{published},0);
CREATE TABLE payloads (
  name TEXT PRIMARY KEY, expires INTEGER NOT NULL, body BLOB NOT NULL
) STRICT;
CREATE TABLE state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO "state" VALUES('catalogue',2);
INSERT INTO "state" VALUES('run',1);
INSERT INTO "state" VALUES('seen',{published});
CREATE INDEX messages_due ON messages (queue, due) WHERE run = 0;
CREATE INDEX messages_run ON messages (run) WHERE run > 0;
CREATE INDEX messages_deaths ON messages (deaths) WHERE deaths > 0;
CREATE INDEX messages_parked ON messages (parked, id) WHERE parked IS NOT NULL;
CREATE INDEX message_payloads_payload ON message_payloads (payload);
CREATE INDEX payloads_expires ON payloads (expires);
CREATE INDEX blobs_written ON blobs (written);
CREATE INDEX attempts_event ON attempts (event_id, topic, subscription, hour)
  WHERE event_id IS NOT NULL;
CREATE INDEX attempts_hour ON attempts (hour);
CREATE INDEX counts_start ON counts (span, start);
