// Accepts events over HTTP: answers 200 when Redis has a job for each event and subscription.
import { createServer } from "node:http";
import { Queue } from "bullmq";

const [redisPort, port, subscriptions] = process.argv.slice(2).map(Number);
const queue = new Queue("pushes", { connection: { host: "127.0.0.1", port: redisPort } });
const opts = { attempts: 30, backoff: { type: "exponential", delay: 10_000 }, removeOnComplete: true };
const targets = Array.from({ length: subscriptions }, (_, number) => `/hook/${number}`);

async function accept(body) {
  const events = JSON.parse(body);
  await queue.addBulk(events.flatMap((event) => targets.map((path) => ({ name: "push", data: { path, event }, opts }))));
}

const server = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", async () => {
    let status = 200;
    try {
      await accept(Buffer.concat(parts));
    } catch (error) {
      console.error(error);
      status = 503;
    }
    response.writeHead(status, { "Content-Length": 0 }).end();
  });
});

await queue.waitUntilReady();
server.listen(port, "127.0.0.1");
