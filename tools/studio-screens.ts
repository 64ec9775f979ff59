// Writes the pictures of docs/studio.md: each view of the page in light and dark, from a fixed example home. Needs the build, and Chromium.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { createExampleHome } from "./screens/example-home.ts";

const root = join(import.meta.dirname, "..");
const folder = join(root, "docs/studio");
const CHROMIUM = process.env["SKILLET_CHROMIUM"] ?? "/usr/bin/chromium";
const MAX_BYTES = 120_000;
const SIZE = { width: 1200, height: 780 };

/** THE views, by the name of their picture. */
const VIEWS: Readonly<Record<string, string>> = {
  skills: "/skills",
  skill: "/skills/release-notes",
  explain: "/explain?q=write%20the%20release%20notes&skill=sql-review",
  runs: "/runs",
  run: "/runs/RUN",
  approvals: "/approvals",
  evaluation: "/evaluation?skill=release-notes",
  outcome: "/evaluation?skill=release-notes&level=task",
  health: "/health",
};

/** The last element that a view shows. */
const READY: Readonly<Record<string, string>> = {
  skills: ".row .figure",
  skill: ".prose",
  explain: ".tabs .count",
  run: ".timeline",
  approvals: ".request",
  evaluation: ".chart canvas",
  outcome: ".chart canvas",
  health: ".columns",
};

const place = mkdtempSync(join(tmpdir(), "skillet-screens-"));
const { home, project } = await createExampleHome(place);
const child = spawn(process.execPath, [join(root, "bin/skillet.cjs"), "studio", "--json", "--port", "0", "--no-open"], {
  cwd: project,
  env: { PATH: process.env["PATH"], HOME: home },
  stdio: ["ignore", "pipe", "inherit"],
});
const link = await readLink(child);
const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--font-render-hinting=none"],
});
try {
  mkdirSync(folder, { recursive: true });
  const context = await browser.newContext({ viewport: SIZE });
  const page = await context.newPage();
  const devtools = await context.newCDPSession(page);
  await page.goto(link);
  await page.waitForSelector(".row");
  for (const theme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: theme });
    for (const [name, view] of Object.entries(VIEWS)) {
      if (name === "run") await page.locator(".row a").first().click();
      else await page.goto(new URL(view, link).href);
      await page.waitForSelector("h1");
      await page.waitForSelector(READY[name] ?? "main > :nth-child(2)");
      await page.locator(".loading").waitFor({ state: "detached" });
      const { data } = await devtools.send("Page.captureScreenshot", { format: "webp", quality: 85 });
      const bytes = Buffer.from(data, "base64");
      writeFileSync(join(folder, `${name}-${theme}.webp`), bytes);
      console.log(`${name}-${theme}.webp ${Math.round(bytes.length / 1000)} kB`);
      if (bytes.length > MAX_BYTES) process.exitCode = 1;
    }
  }
} finally {
  await browser.close();
  child.kill();
  rmSync(place, { recursive: true, force: true });
}

function readLink({ stdout }: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    stdout?.on("data", (piece) => {
      text += piece;
      if (text.includes("\n")) resolve(JSON.parse(text.slice(0, text.indexOf("\n"))).link);
    });
  });
}
