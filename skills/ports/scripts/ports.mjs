// Lists the programs that listen on TCP ports, and requests the end of those that a sentence names.
// Usage: node ports.mjs [SENTENCE]
import { spawnSync } from "node:child_process";

const COLUMNS = 80;
const write = (text) => process.stdout.write(`${text}\n`);
const clean = (text) => String(text).replace(/[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]/g, "·");
const clip = (text, most) => (text.length <= most ? text : `…${text.slice(1 - most)}`);
const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** Reads a sentence such as "stop what runs on port 3000". */
function parseSentence(sentence) {
  const ports = [...sentence.matchAll(/(?<![\d.])\d{2,5}(?![\d.]*\d)/g)].map(([text]) => Number(text));
  return {
    ports: [...new Set(ports)].filter((port) => port <= 65_535),
    isStop: /\b(stop|kill|free|end|terminate|release|unblock|shut down|close)\b/i.test(sentence),
    isForced: /\b(force|forced|forcibly|kill -9|sigkill)\b/i.test(sentence),
  };
}

/** Calls an operation. Exits with the code of the command if it is refused, or waits for an approval. */
function invoke(operation, input) {
  const args = ["capability", "invoke", "-c", "ports.listeners", "-o", operation, "--input", JSON.stringify(input)];
  const { status, stdout, error } = spawnSync("skillet-sb", [...args, "--json"], { encoding: "utf8" });
  if (error) fail("Ports are read through skillet. Run: skillet enable ports; skillet run ports", 1);
  const answer = JSON.parse(stdout);
  if (status !== 0) fail([answer.error.message, ...answer.error.next].join("\n"), status ?? 1);
  return answer.output;
}

function fail(message, code) {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

const isReachable = ({ addresses }) => addresses.some((address) => !/^(127\.|::1$)/.test(address));

function formatListener(listener) {
  const { port, addresses, user, program, pid, folder } = listener;
  const who = pid === undefined ? `a process of ${user}` : `${program}, process ${pid} of ${user}`;
  const where = isReachable(listener) ? `other machines can reach it: ${addresses.join(", ")}` : "only this machine";
  const lines = [`${isReachable(listener) ? "!" : "·"} ${String(port).padEnd(7)}${who}`, where];
  if (folder !== undefined) lines.push(`in ${clip(clean(folder), COLUMNS - 12)}`);
  return lines.map((line, index) => clean(index === 0 ? line : `         ${line}`).slice(0, COLUMNS)).join("\n");
}

const { ports, isStop, isForced } = parseSentence(process.argv.slice(2).join(" "));
const { listeners } = invoke("list", {});
const chosen = listeners.filter(({ port }) => ports.length === 0 || ports.includes(port));
const reachable = chosen.filter(isReachable).length;
const what = ports.length === 0 ? "TCP ports" : `port ${ports.join(", ")}`;
write(
  `Listening   ${count(chosen.length, "program")} on ${what}; ${reachable} reachable by other machines`.slice(
    0,
    COLUMNS,
  ),
);
for (const listener of chosen) write(`\n${formatListener(listener)}`);

if (isStop && ports.length === 0) write("\nTo stop a program, name its port: stop port 3000");
const targets = isStop && ports.length > 0 ? chosen : [];
for (const { port, program, pid, start_time, user } of targets) {
  if (pid === undefined) {
    write(`\nPort ${port} belongs to ${clean(user)}: only that user or an administrator can free it.`);
    continue;
  }
  invoke("stop", { port, program, pid, start_time, ...(isForced ? { force: true } : {}) });
  write(`\nStopped ${clean(program)}, process ${pid}: port ${port} is free.`.slice(0, COLUMNS));
}
