// Pushes each job's event to its subscriber over keep-alive connections.
import { Worker } from "bullmq";
import { Pool } from "undici";

const [redisPort, inFlight, sink] = process.argv.slice(2);
const subscribers = new Pool(sink, { connections: Number(inFlight) });

async function push({ data: { path, event } }) {
  const { statusCode, body } = await subscribers.request({
    method: "POST",
    path,
    headers: { "content-type": "application/json" },
    body: JSON.stringify([event]),
  });
  await body.dump();
  if (statusCode !== 200) throw new Error(`answered ${statusCode}`);
}

const connection = { host: "127.0.0.1", port: Number(redisPort) };
new Worker("pushes", push, { connection, concurrency: Number(inFlight) }).on("error", console.error);
