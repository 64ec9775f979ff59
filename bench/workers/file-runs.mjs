// Does runs in this process with the journal in files, 16 at once: node file-runs.mjs COUNT. Prints the time of the first and the last, and the CPU time.
import { discover, useSkill } from "skillet";

const host = await discover({ follow: false });
let left = Number(process.argv[2]);
const start = Date.now();
const before = process.cpuUsage();
const work = async () => {
  while (left-- > 0) {
    const result = await useSkill(host.catalog, host, { skill: "bench", message: "answer" });
    if (result.isError) throw new Error(result.content);
  }
};
await Promise.all(Array.from({ length: 16 }, work));
const { user, system } = process.cpuUsage(before);
process.stdout.write(JSON.stringify({ start, end: Date.now(), cpuMs: (user + system) / 1000 }));
