// Groups the errors and warnings of log files. Usage: triage.mjs [FILE or FOLDER …], also several in one argument.
// Without a name it reads the newest log files of the current folder. Reads line by line: the size of a file does not matter.
import { createReadStream, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { createGunzip } from "node:zlib";

const write = (text) => process.stdout.write(`${text}\n`);
const complain = (text) => process.stderr.write(`${text}\n`);

const MAX_FILES = 20;
const MAX_GROUPS = 5000;
const MAX_LINE = 4096;
const SHOWN_GROUPS = 8;
const COLUMNS = 80;

const LOG_NAME = /(?:\.log|\.log\.\d+|\.err|\.out|^syslog|^messages|\.jsonl)(?:\.\d+)?(?:\.gz)?$/i;
const SKIPPED_FOLDERS = new Set(["node_modules", ".git", "vendor", "dist", "target", ".venv"]);

/** Returns the log files in a folder, the newest first. */
function findLogs(folder, depth = 3) {
  const found = [];
  let entries = [];
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return found;
  }
  for (const entry of entries) {
    const path = folder === "." ? entry.name : join(folder, entry.name);
    if (entry.isDirectory() && depth > 0 && !SKIPPED_FOLDERS.has(entry.name)) found.push(...findLogs(path, depth - 1));
    else if (entry.isFile() && LOG_NAME.test(entry.name))
      found.push({ path, time: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 });
  }
  return found.sort((a, b) => b.time - a.time);
}

/** Returns the files that the arguments name. Other words of a request are ignored. */
function selectFiles(args) {
  const kindOf = (path) => {
    const entry = path === "" ? undefined : statSync(path, { throwIfNoEntry: false });
    return entry?.isFile() ? "file" : entry?.isDirectory() ? "folder" : undefined;
  };
  const words = args.flatMap((arg) =>
    kindOf(arg)
      ? [arg]
      : arg.split(/\s+/).map((word) => (kindOf(word) ? word : word.replace(/^["'`(]+|["'`),.:;?!]+$/g, ""))),
  );
  const named = words.filter((word) => kindOf(word) && word !== "." && word !== "..");
  const missing = words.filter((word) => !kindOf(word) && /\/|\.(log|gz|txt|jsonl)$/i.test(word));
  const files = named.flatMap((path) => (kindOf(path) === "file" ? [path] : findLogs(path).map((file) => file.path)));
  if (named.length > 0 || missing.length > 0) return { files: [...new Set(files)], missing };
  return { files: findLogs(".").map((file) => file.path), missing };
}

const LEVELS = [
  ["fatal", /(?<![\w-])(fatal|critical|crit|panic|emerg|emergency|alert)(?![\w-])/i],
  ["error", /(?<![\w-])(errors?|err|severe|exception|failed|failure|segfault|killed process)(?![\w-])/i],
  ["error", /[a-z](?:Error|Exception)\b/],
  ["warning", /(?<![\w-])(warn|warning|deprecated)(?![\w-])/i],
];
const NUMERIC_LEVELS = [
  [60, "fatal"],
  [50, "error"],
  [40, "warning"],
];
/** A level that other text does not decide: `level=info`, `[INFO]`, `INFO:`. */
const QUIET = /^\W*(?:\S+\s+){0,4}?\W?(?:level=)?["[]?(info|debug|trace|notice|verbose)\b/i;
const EXPLICIT = /(?:^|[\s[|(])(?:level=|lvl=)?["[]?(FATAL|CRITICAL|PANIC|ERROR|ERR|SEVERE|WARN|WARNING)["\]:|\s]/;

function findLevel(text) {
  const explicit = EXPLICIT.exec(text)?.[1];
  if (explicit === undefined && QUIET.test(text)) return undefined;
  return LEVELS.find(([, pattern]) => pattern.test(explicit ?? text))?.[0];
}

const TIME =
  /\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)|\b(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d:\d\d:\d\d)|^([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)|(?:^|[\s[])(\d\d:\d\d:\d\d)\b/;
const MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";
const monthOf = (name) => String(MONTHS.indexOf(name) / 3 + 1).padStart(2, "0");

/** Returns the time at the beginning of a line, as `2026-11-19 08:02:11` or the part of it that is known. */
function findTime(line) {
  const match = TIME.exec(line.slice(0, 120));
  if (!match) return undefined;
  const [, day, time, d, m, y, webTime, month, dayOfMonth, sysTime, onlyTime] = match;
  if (day) return `${day} ${time}`;
  if (webTime) return `${y}-${monthOf(m)}-${d} ${webTime}`;
  if (sysTime) return `${monthOf(month)}-${dayOfMonth.padStart(2, "0")} ${sysTime}`;
  return onlyTime;
}

const ACCESS = /"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) (\S+)[^"]*" (\d{3})\b/;

/** Returns the level and the message of a line, or nothing if it is not a problem. */
function readLine(line) {
  if (line.startsWith("{")) {
    try {
      const entry = JSON.parse(line);
      const written = entry.level ?? entry.severity ?? entry.lvl ?? entry["log.level"];
      const level =
        typeof written === "number"
          ? NUMERIC_LEVELS.find(([from]) => written >= from)?.[1]
          : LEVELS.find(([, pattern]) => pattern.test(String(written ?? "")))?.[0];
      const error =
        typeof entry.err === "object" ? entry.err?.message : (entry.err ?? entry.error?.message ?? entry.error);
      const message = [entry.msg ?? entry.message ?? entry.event, error]
        .filter((part) => typeof part === "string")
        .join(": ");
      const time = entry.time ?? entry.timestamp ?? entry.ts ?? entry["@timestamp"];
      const date = typeof time === "number" ? new Date(time < 1e11 ? time * 1000 : time) : undefined;
      const at = date && !Number.isNaN(date.getTime()) ? findTime(date.toISOString()) : findTime(String(time ?? ""));
      return { level, message: message || line, time: at };
    } catch {
      // Not JSON after all.
    }
  }
  const access = ACCESS.exec(line);
  if (access) {
    const [, method, path, status] = access;
    const level = status >= "500" ? "error" : undefined;
    return { level, message: `HTTP ${status} ${method} ${path.split("?")[0]}`, time: findTime(line) };
  }
  return { level: findLevel(line), message: line, time: findTime(line) };
}

const SECRET =
  /\b(pass(?:word|wd)?|secret|token|api[-_]?key|authorization|cookie)\b(["']?\s*[:=]\s*)(?:bearer\s+|basic\s+)?[^\s,;"']+/gi;

/** Removes what differs between two occurrences of the same problem, and values that look secret. */
function createSignature(message) {
  return message
    .replace(
      /^\s*(?:<\d+>)?(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d)\s*/,
      "",
    )
    .replace(SECRET, "$1$2<secret>")
    .replace(/\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b/gi, "<id>")
    .replace(/\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b/g, "<address>")
    .replace(/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b|\b0x[0-9a-f]+\b/gi, "<id>")
    .replace(/\b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9_]{20,}\b/g, "<id>")
    .replace(/^\W*(?:level=)?\[?(?:FATAL|CRITICAL|ERROR|ERR|SEVERE|WARN|WARNING)\]?[:\s]+/, "")
    .replace(/(?<!HTTP \d{0,2})\d+(?:\.\d+)?/g, "#")
    .replace(/\s+/g, " ")
    .trim();
}

/** Makes control characters of a log visible: they must not reach a terminal. */
const clean = (text) =>
  text.replace(/\x1b\[[0-9;]*[A-Za-z]/g, "").replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "·");
const cleanLine = (text) => clean(text).replace(/[\n\t]/g, "·");
const clip = (text, width) => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);
const count = (number, noun) => `${number.toLocaleString("en-US")} ${noun}${number === 1 ? "" : "s"}`;

const isContinuation = (line) => /^(?:\s+\S|Caused by:|\.\.\. \d+ more|\t)/.test(line);

const report = {
  lines: 0,
  levels: new Map(),
  groups: new Map(),
  minutes: new Map(),
  dropped: 0,
  first: undefined,
  last: undefined,
};

/** Extends a period by a time. Files are read in any order; of times with and without a date, those with it count. */
function widen({ first, last }, time) {
  if (time === undefined || first?.length > time.length) return { first, last };
  if (first?.length < time.length) return { first: time, last: time };
  return {
    first: first === undefined || time < first ? time : first,
    last: last === undefined || time > last ? time : last,
  };
}

function addProblem({ level, message, time }, path, number) {
  report.levels.set(level, (report.levels.get(level) ?? 0) + 1);
  if (level !== "warning" && time && time.length >= 5) {
    const minute = time.replace(/:\d\d$/, (end) => (/\d\d:\d\d:\d\d$/.test(time) ? "" : end));
    report.minutes.set(minute, (report.minutes.get(minute) ?? 0) + 1);
  }
  // The text of a JSON line has its control characters only now.
  const signature = clip(createSignature(clean(message)), 300);
  const key = `${level} ${signature}`;
  const group = report.groups.get(key);
  if (group) {
    group.count++;
    Object.assign(group, widen(group, time));
  } else if (report.groups.size < MAX_GROUPS)
    report.groups.set(key, {
      level,
      signature,
      count: 1,
      first: time,
      last: time,
      place: `${cleanLine(path)}:${number}`,
    });
  else report.dropped++;
}

/** Reads lines, and keeps only the beginning of one that does not end: a line may be longer than the memory. */
async function* readLines(stream) {
  let rest = "";
  for await (const chunk of stream.setEncoding("utf8")) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop().slice(0, MAX_LINE);
    for (const line of lines) yield line.replace(/\r$/, "");
  }
  if (rest !== "") yield rest;
}

async function readFile(path) {
  const raw = createReadStream(path);
  const stream = path.endsWith(".gz") ? raw.pipe(createGunzip()) : raw;
  raw.on("error", (error) => stream.destroy(error));
  let number = 0;
  let traceback;
  let previous;
  for await (const whole of readLines(stream)) {
    number++;
    report.lines++;
    const line = clean(whole.slice(0, MAX_LINE));
    if (traceback) {
      if (isContinuation(line)) continue;
      // The first line below a Python traceback is its message.
      addProblem({ level: "error", message: line || "Traceback", time: traceback.time }, path, traceback.number);
      traceback = undefined;
      if (line !== "") continue;
    }
    if (/^(?:\S+ )*Traceback \(most recent call last\)/.test(line)) {
      traceback = { number, time: findTime(line) ?? previous };
      continue;
    }
    if (line.trim() === "" || isContinuation(line)) continue;
    const entry = readLine(line);
    Object.assign(report, widen(report, entry.time));
    previous = entry.time ?? previous;
    if (entry.level) addProblem(entry, path, number);
  }
  if (traceback) addProblem({ level: "error", message: "Traceback", time: traceback.time }, path, traceback.number);
}

function printReport(files, left) {
  const span = report.first ? `, ${report.first} to ${report.last}` : "";
  const names = files.length === 1 ? cleanLine(files[0]) : count(files.length, "file");
  const levels = ["fatal", "error", "warning"].filter((level) => report.levels.has(level));
  write(clip(`Logs    ${names}, ${count(report.lines, "line")}${span}`, COLUMNS));
  if (left > 0) write(`        ${count(left, "older file")} not read: name them to read them`);
  if (levels.length === 0) return write("\nNo errors or warnings.");
  write(`Found   ${levels.map((level) => count(report.levels.get(level), level)).join(", ")}`);
  const [peak, most] = [...report.minutes].sort((a, b) => b[1] - a[1])[0] ?? [];
  if (most > 2) write(`Peak    ${peak}, ${count(most, "error")} in one minute`);
  const rank = { fatal: 0, error: 1, warning: 2 };
  const groups = [...report.groups.values()].sort((a, b) => rank[a.level] - rank[b.level] || b.count - a.count);
  for (const { level, signature, count: times, first, last, place } of groups.slice(0, SHOWN_GROUPS)) {
    write(`\n${clip(`${level === "warning" ? "·" : "!"} ${times} × ${level}: ${signature}`, COLUMNS)}`);
    const when = first ? (first === last ? `at ${first}` : `${first} to ${last}`) : "";
    write(clip(`  ${when}${when && ", "}first in ${place}`, COLUMNS));
  }
  const more = groups.length - SHOWN_GROUPS;
  if (more > 0) write(`\n${count(more, "other kind")} of error or warning not shown.`);
  if (report.dropped > 0) write(`${count(report.dropped, "problem")} of further kinds counted, but not grouped.`);
}

if (process.env.SKILL_DIR === "/skill" && process.cwd() !== "/workspace") {
  complain("The workspace is not visible in the sandbox. To see the reason, run: skillet run log-triage --dry-run");
  process.exit(1);
}
const { files, missing } = selectFiles(process.argv.slice(2));
for (const path of missing) complain(`Not found in the workspace: ${cleanLine(path)}`);
if (files.length === 0) {
  complain("No log files found. Name a file or folder of the workspace; copy other logs into it first.");
  process.exit(1);
}
const read = files.slice(0, MAX_FILES);
const done = [];
for (const path of read) {
  try {
    await readFile(path);
    done.push(path);
  } catch (error) {
    complain(`Cannot read ${cleanLine(basename(path))}: ${cleanLine(error.message)}`);
  }
}
if (done.length === 0) process.exit(1);
printReport(done, files.length - read.length);
