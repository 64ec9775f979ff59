import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { loadavg } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { generate } from "./generate.mjs";
import { median } from "./measure.mjs";
import { withPlace } from "./place.mjs";

const PROGRAM = join(import.meta.dirname, "..", "bin", "skillet.cjs");
const CHROMIUM = process.env.SKILLET_CHROMIUM ?? "/usr/bin/chromium";
/** Only turns a hang into a failure. */
const PATIENCE_MS = 180_000;
const SIZES = { start: 1000, page: 10_000 };

/** Measures the start of the server, its memory, and the page, compared with a static page with the same rows. */
export async function studio({ runs, say }) {
  const [load] = loadavg();
  return withPlace(async (place) => {
    const few = makeHome(place, "few", SIZES.start);
    say(`writes ${SIZES.page} skills`);
    const many = makeHome(place, "many", SIZES.page);
    const values = new Map();
    const add = (name, unit, value) => values.set(name, { unit, all: [...(values.get(name)?.all ?? []), value] });
    for (let round = 0; round <= runs; round++) {
      const isWarm = round > 0; // The first round writes the indexes.
      say(`round ${round} of ${runs}`);
      const started = await measureStart(few);
      const listed = measureList(few);
      if (!isWarm) continue;
      add("start to first byte", "ms", started);
      add("skillet list", "ms", listed);
    }
    await measureMemory(few, add);
    await measurePages(many, runs, add);
    const rows = [...values].map(([name, { unit, all }]) => ({ name, unit, value: median(all) }));
    return { load, rounds: runs, sizes: SIZES, rows };
  });
}

function makeHome(place, name, count) {
  const home = join(place, name);
  const cwd = join(home, "work");
  mkdirSync(cwd, { recursive: true });
  generate(join(home, ".skillet/skills"), count, "flat");
  return { cwd, env: { PATH: process.env.PATH, HOME: home } };
}

async function startStudio(home) {
  const args = [PROGRAM, "studio", "--json", "--port", "0", "--no-open"];
  const child = spawn(process.execPath, args, { ...home, stdio: ["ignore", "pipe", "inherit"] });
  const link = await readLine(child, (line) => JSON.parse(line).link);
  const stop = () => new Promise((resolve) => child.once("close", resolve) && child.kill());
  return { child, link, stop };
}

function readLine({ stdout }, parse) {
  return new Promise((resolve) => {
    let text = "";
    stdout.on("data", (piece) => {
      text += piece;
      if (text.includes("\n")) resolve(parse(text.slice(0, text.indexOf("\n"))));
    });
  });
}

async function measureStart(home) {
  const from = performance.now();
  const { link, stop } = await startStudio(home);
  const response = await fetch(link);
  await response.body.getReader().read();
  const ms = performance.now() - from;
  await stop();
  return ms;
}

function measureList(home) {
  const from = performance.now();
  const { status } = spawnSync(process.execPath, [PROGRAM, "list"], { ...home, maxBuffer: 1e8 });
  if (status !== 0) throw new Error("skillet list failed");
  return performance.now() - from;
}

/** The memory of a process in MB, once it has answered and its watchers have started. */
async function measureMemory(home, add) {
  const memoryOf = ({ pid }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
  const watching = spawn(process.execPath, [PROGRAM, "list", "--watch"], {
    ...home,
    stdio: ["ignore", "ignore", "pipe"],
  });
  await readLine({ stdout: watching.stderr }, (line) => line);
  add("memory of list --watch", "MB", memoryOf(watching));
  watching.kill();
  const { child, link, stop } = await startStudio(home);
  const browser = await openBrowser();
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(link);
  await page.locator(".row .figure").first().waitFor();
  await page.locator(".budget .figure").first().waitFor();
  add("memory of studio", "MB", memoryOf(child));
  await browser.close();
  await stop();
}

function openBrowser() {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
}

/** Opens both pages in turn, each in a new tab. The static page has all rows in its HTML. */
async function measurePages(home, runs, add) {
  const { link, stop } = await startStudio(home);
  const browser = await openBrowser();
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  const first = await context.newPage();
  await first.goto(link);
  await first.locator(".row").first().waitFor();
  const skills = await first.evaluate(
    `fetch("/api/skills", { headers: { "x-skillet-key": localStorage.getItem("skillet-studio-key") } }).then((response) => response.json()).then(({ skills }) => skills)`,
  );
  await first.close();
  const table = createStaticPage(skills);
  const server = createServer((_, response) => response.setHeader("content-type", "text/html").end(table));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const pages = [
    ["page of studio", new URL("/", link).href, ".row .name"],
    ["static page", `http://127.0.0.1:${server.address().port}/`, "tr:last-child td"],
  ];
  for (let round = 0; round < runs; round++) {
    for (const [name, url, ready] of pages) {
      const page = await context.newPage();
      const devtools = await context.newCDPSession(page);
      await devtools.send("Performance.enable");
      const from = performance.now();
      await page.goto(url, { waitUntil: "commit" });
      await page.locator(ready).first().waitFor();
      add(`${name}, rows`, "ms", performance.now() - from);
      const { metrics } = await devtools.send("Performance.getMetrics");
      add(`${name}, main thread`, "ms", metrics.find((metric) => metric.name === "TaskDuration").value * 1000);
      await addBrowserMemory(name, devtools, add);
      await page.close();
    }
  }
  await browser.close();
  server.close();
  await stop();
}

/** The memory of a page after garbage collection, and its nodes. */
async function addBrowserMemory(name, devtools, add) {
  await devtools.send("HeapProfiler.collectGarbage");
  const { metrics } = await devtools.send("Performance.getMetrics");
  const getMetric = (id) => metrics.find((metric) => metric.name === id).value;
  add(`${name}, JavaScript heap`, "MB", getMetric("JSHeapUsedSize") / 1024 ** 2);
  add(`${name}, nodes`, "nodes", getMetric("Nodes"));
}

function createStaticPage(skills) {
  const toText = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const rows = skills.map(
    ({ name, description, source, trust }) =>
      `<tr><td>${toText(name)}</td><td>${toText(description)}</td><td>${toText(source)}</td><td>${trust}</td></tr>`,
  );
  return `<!doctype html><title>Skills</title><table>${rows.join("\n")}</table>`;
}
