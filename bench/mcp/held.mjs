// Loaded into a server with `--import` and `--expose-gc`: reports the memory of the process to its parent.
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
// A server ends when its client disconnects, even if this channel is open.
process.channel.unref();

function threads() {
  return process.platform === "linux" ? readdirSync("/proc/self/task").length : undefined;
}
