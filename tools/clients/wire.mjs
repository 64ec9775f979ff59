// Runs `skillet serve`, and records all messages of both sides in the home folder.
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "..", "..", "bin", "skillet.cjs");
const log = join(homedir(), "wire.jsonl");
const server = spawn(process.execPath, [program, ...process.argv.slice(2)], { stdio: ["pipe", "pipe", "inherit"] });
write({ started: [process.pid, server.pid] });

pass(process.stdin, server.stdin, "client");
pass(server.stdout, process.stdout, "server");
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => server.kill(signal));
server.on("exit", (code) => {
  process.exitCode = code ?? 1;
  process.stdin.destroy();
});

function pass(from, to, who) {
  let rest = "";
  from.setEncoding("utf8").on("data", (text) => {
    to.write(text);
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) write({ from: who, line });
  });
  from.on("end", () => to.end());
  to.on("error", () => from.destroy());
}

function write(entry) {
  appendFileSync(log, `${JSON.stringify(entry)}\n`);
}
