// Loaded into a server with `--import`, beside `--expose-gc`: tells its parent what the process holds.
import { readdirSync } from "node:fs";
import { setTimeout } from "node:timers/promises";

const MEGABYTE = 2 ** 20;
const READINGS = 5;

process.on("message", async () => {
  const readings = [];
  for (let count = 0; count < READINGS; count++) {
    await setTimeout(50);
    globalThis.gc();
    readings.push(process.memoryUsage());
  }
  const least = (key) => Math.min(...readings.map((reading) => reading[key])) / MEGABYTE;
  process.send({ rss: least("rss"), heap: least("heapUsed"), threads: threads() });
});
// A server ends when its client has gone, whoever else listens.
process.channel.unref();

function threads() {
  return process.platform === "linux" ? readdirSync("/proc/self/task").length : undefined;
}
