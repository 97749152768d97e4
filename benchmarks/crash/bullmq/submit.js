// Hands jobs to BullMQ: node submit.js <job>…
import { Queue } from "bullmq";

import { QUEUE, connection } from "./connection.js";

const queue = new Queue(QUEUE, { connection });
for (const name of process.argv.slice(2)) {
  await queue.add(name, {}, { jobId: name });
}
await queue.close();
