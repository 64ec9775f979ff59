// Loaded with `--import` if /usr/bin/time is missing: writes this process's peak memory in kilobytes to a file.
import { readFileSync, writeFileSync } from "node:fs";

process.on("exit", () => writeFileSync(process.env.BENCH_PEAK_FILE, String(peak())));

// Linux's ru_maxrss starts at the size of the process that started this one; VmHWM does not.
function peak() {
  if (process.platform !== "linux") return process.resourceUsage().maxRSS;
  return Number(/^VmHWM:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))[1]);
}
