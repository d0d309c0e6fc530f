// Publishes with Microsoft's client what a line of JSON on stdin asks for:
// {"endpoint", "schema", "key", "signed": with a SAS made of the key, "events": […]}.
import { text } from "node:stream/consumers";
import {
  AzureKeyCredential,
  AzureSASCredential,
  EventGridPublisherClient,
  generateSharedAccessSignature,
} from "@azure/eventgrid";

const { endpoint, schema, key, signed, events } = JSON.parse(await text(process.stdin));
let credential = new AzureKeyCredential(key);
if (signed) {
  const inAnHour = new Date(Date.now() + 3_600_000);
  credential = new AzureSASCredential(
    await generateSharedAccessSignature(endpoint, credential, inAnHour),
  );
}
const options = { allowInsecureConnection: endpoint.startsWith("http:") };
await new EventGridPublisherClient(endpoint, schema, credential, options).send(events);
