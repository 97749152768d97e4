// The queue's name and where Redis is; host, port and database, because BullMQ takes ioredis options.
const url = new URL(process.env.CRASH_REDIS_URL);

export const QUEUE = "crash";
export const connection = { host: url.hostname, port: Number(url.port), db: Number(url.pathname.slice(1)) };
