// BullMQ as it comes: one worker, one job at a time. The same job and the same journal as apps/job.py.
import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { Worker } from "bullmq";

import { QUEUE, connection } from "./connection.js";

function say(step, job) {
  // hrtime is CLOCK_MONOTONIC, as Python's time.monotonic(); appendFileSync opens with O_APPEND.
  const at = (Number(process.hrtime.bigint()) / 1e9).toFixed(6);
  appendFileSync(process.env.CRASH_JOURNAL, `${step} ${job} ${process.pid} ${at}\n`);
}

async function work(job) {
  say("start", job.name);
  say("effect", job.name);
  await sleep(1000 * Number(process.env.CRASH_WORK_SECONDS));
  say("done", job.name);
}

const worker = new Worker(QUEUE, work, { connection });
worker.on("error", (error) => console.error(error));
worker.on("failed", (job, error) => console.error(job?.name, error));
