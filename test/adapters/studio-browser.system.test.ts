import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { AxeResults } from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { createHeldFolder, digestCurrent } from "../../src/agent/workspace/held-changes.ts";
import { digestPath } from "../../src/agent/workspace/workspace-snapshot.ts";
import { formatCost, formatDuration } from "../../src/cli/run-format.ts";
import { createEvalReport, createSkillReport, type EvalReport, saveEvalReport } from "../../src/eval/eval-report.ts";
import { comparePairs, computeRate } from "../../src/eval/pair-statistics.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createExampleHome } from "../../tools/screens/example-home.ts";
import { skillet } from "../support/command.ts";
import { skillText, temporaryFolder, writeFiles } from "../support/folder.ts";
import { createHome, type Place } from "../support/home.ts";
import { MODEL, startModelServer, type Turn } from "../support/model-server.ts";
import { IS_LONG, sampleRows } from "../support/sample-steps.ts";
import { startStudio } from "../support/studio.ts";
import { openTerminal } from "../support/terminal.ts";
import { modelConfig } from "../support/use.ts";
import { waitFor } from "../support/wait-for.ts";

const CHROMIUM = "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Only turns a hang into a failure. */
const PATIENCE = { timeout: 45_000 };

const VIEWS = ["skills", "explain", "runs", "approvals", "evaluation", "health"];

type Run = Parameters<typeof startStudio>[0];

let browser: Browser;

beforeAll(async () => {
  if (existsSync(CHROMIUM)) browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
});
afterAll(async () => browser?.close());

/** Opens the page in a separate browser. It fails the test if the policy is violated, or if the page throws. */
async function openPage(
  run: Run,
  options: BrowserContextOptions & { args?: string[] } = {},
): Promise<{ page: Page; url: string }> {
  const { args = [], ...context } = options;
  const studio = await startStudio(run, ...args);
  const page = await (await browser.newContext(context)).newPage();
  page.setDefaultTimeout(PATIENCE.timeout);
  const problems: string[] = [];
  page.on("pageerror", ({ message }) => problems.push(message));
  page.on("console", (message) => {
    // A refused request is reported too: only what the policy refused counts.
    if (/Content Security Policy|Trusted/i.test(message.text())) problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(studio.url)) problems.push(`requests ${request.url()}`);
  });
  onTestFinished(async () => {
    await page.context().close();
    expect(problems).toEqual([]);
  });
  await page.goto(studio.link);
  await page.locator(".page-head h1").waitFor();
  return { page, url: studio.url };
}

async function exampleRun(): Promise<{ run: Run; home: string; project: string }> {
  const { home, project } = await createExampleHome(temporaryFolder());
  return {
    home,
    project,
    run: (args, options = {}) => skillet(args, { ...options, cwd: project, env: { HOME: home } }),
  };
}

type ArmTotals = EvalReport["skills"][number]["cases"][number]["arms"][string];

const sumOf = (all: readonly ArmTotals[], field: "passed" | "trials") => all.reduce((sum, one) => sum + one[field], 0);

/** Evaluates a skill of the example with tasks that a model does: without the skill, it does none of them. */
async function evaluateTasks({ run, home }: Awaited<ReturnType<typeof exampleRun>>): Promise<EvalReport> {
  const server = await startModelServer("openai", ({ instructions }) =>
    instructions.includes("Collect the merged changes") ? "done" : "I cannot",
  );
  const prices = `[prices."${MODEL}"]\ninput = 1000\noutput = 3000\n`;
  const graders = "[{ answer: { contains: done } }]";
  writeFiles(home, {
    ".skillet/config.toml": `${modelConfig("openai", server)}\n${prices}`,
    ".skillet/skills/release-notes/evals/tasks.yaml": `version: 1\ntrials: 6\ncases: [{ name: notes, prompt: Write them., graders: ${graders} }]\n`,
  });
  chmodSync(join(home, ".skillet/config.toml"), 0o600);
  await run(["trust", "release-notes", "--yes"]);
  const { code, stdout, stderr } = await run([
    ...["eval", "release-notes", "--level", "task", "--max-cost", "100", "--json"],
  ]);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout);
}

/** Records a run that no process works on: it was interrupted, or waits for a call that changes something outside the workspace. */
async function recordRun({ home, project }: Place, id: string, tool?: string): Promise<void> {
  const journal = await createRunStore(join(home, ".skillet")).create({
    head: {
      ...{ id, kind: "use", skill: "greeter", task: "greet them", workspace: project },
      caller: { chatType: "private", chatId: "terminal" },
    },
    request: { skill: "greeter", message: "greet them" },
  });
  if (tool !== undefined)
    await journal.ask("approval:1.1", {
      ...{ run: id, skill: "greeter", source: "user", location: join(home, ".skillet/skills/greeter"), tool },
      ...{
        input: { to: "ann@example.com" },
        on: "outside",
        what: "send a mail",
        reason: "it changes something outside",
      },
    });
  await journal.close();
}

const writes: Turn = () => [{ tool: "write_file", input: { path: "out.txt", content: "written\n" } }];
const GREETER = { "home/.skillet/skills/greeter/SKILL.md": skillText("greeter") };

describe.runIf(existsSync(CHROMIUM))("the page of studio", () => {
  it("[V-02] shows in every view the figures of --json", async () => {
    const { run, home, project } = await exampleRun();
    const evaluated = await evaluateTasks({ run, home, project });
    // High enough for all rows: only those on the screen are rendered.
    const { page, url } = await openPage(run, { viewport: { width: 1280, height: 2400 } });
    const printed = async (...args: string[]) => JSON.parse((await run([...args, "--json"])).stdout);
    const show = async (view: string) => {
      await page.goto(`${url}${view}`);
      await page.locator(".page-head h1").waitFor();
    };
    const number = (value: number) => value.toLocaleString("en-US");

    const { skills, shadowed, diagnostics } = await printed("list", "--all");
    await page.locator(".row").first().waitFor();
    const used = skills.filter(({ denial }: { denial?: object }) => !denial);
    expect(await page.locator(".row").count()).toBe(used.length);
    expect(await page.locator(".tabs .count").allTextContents()).toEqual(
      [used.length, skills.length - used.length, shadowed.length, diagnostics.length].map(String),
    );
    const { tokens, files } = await printed("show", "release-notes");
    const row = page.locator(".row", { hasText: "release-notes" });
    await expect
      .poll(() => row.locator(".number").allTextContents(), PATIENCE)
      .toEqual(["", number(tokens.listed), number(tokens.full)]);
    const explained = await printed("explain", "");
    await expect
      .poll(() => page.locator(".budget .figure").allTextContents(), PATIENCE)
      .toEqual([`~${number(explained.prefix.tokens)}`, number(explained.listingBudget)]);

    await show("skills/release-notes");
    await page.locator(".prose").waitFor();
    expect(await page.locator(".files li").count()).toBe(files.length);
    const facts = page.locator(".facts");
    expect(await facts.allTextContents().then((texts) => texts.join())).toContain(`~${number(tokens.full)} tokens`);
    const stats = await printed("stats");
    const notes = stats.skills.find(({ name }: { name: string }) => name === "release-notes");
    await expect
      .poll(async () => (await facts.allTextContents()).join(), PATIENCE)
      .toContain(`Runs${number(notes.runs)}Loads${notes.loads}`);

    await show("explain?q=write%20the%20release%20notes");
    await page.locator(".ranking").first().waitFor();
    const explanation = await printed("explain", "write the release notes");
    expect(await page.locator(".ranking .name").allTextContents()).toEqual(
      explanation.matches.map(({ name }: { name: string }) => name),
    );
    expect(await page.locator(".verdict").textContent()).toContain(`~${number(explanation.tokens)} tokens`);
    const shownTexts = async () => (await page.locator("pre.block").allTextContents()).map((text) => text.trim());
    const textsOf = ({ prefix, suffix }: { prefix: { text: string }; suffix: { text: string } }) =>
      [prefix.text, suffix.text].map((text) => text.trim()).filter((text) => text !== "");
    expect(await shownTexts()).toEqual(textsOf(explanation));
    const tiers = page.getByRole("group", { name: "Tier" });
    for (const tier of ["none", "breadcrumb", "registry", "full"]) {
      const wanted = await printed("explain", "write the release notes", "--tier", tier);
      await tiers.getByText(new RegExp(`^${tier}`)).click();
      await expect.poll(shownTexts, PATIENCE).toEqual(textsOf(wanted));
      expect(await tiers.locator("label.selected .count").textContent()).toBe(`~${number(wanted.tokens)}`);
    }
    await page.getByLabel("Why, or why not?").last().fill("sql-review");
    const whyNot = await printed("explain", "write the release notes", "--skill", "sql-review");
    await expect.poll(() => page.locator(".answer").textContent(), PATIENCE).toContain(whyNot.reason);

    await show("runs");
    await page.locator(".row").first().waitFor();
    const { runs } = await printed("runs");
    expect(await page.locator(".row .name").allTextContents()).toEqual(
      runs.map(({ skill }: { skill: string }) => skill),
    );
    const [waiting] = runs;
    await show(`runs/${waiting.id}`);
    await page.locator(".timeline").waitFor();
    const { timeline } = await printed("runs", "show", waiting.id);
    expect(await page.locator(".entry").count()).toBe(timeline.length);

    await show("approvals");
    await page.locator(".request").waitFor();
    const approvals = await printed("approve");
    expect(await page.locator(".request").count()).toBe(approvals.waiting.length);
    expect(await page.locator(".request .facts").textContent()).toContain(approvals.waiting[0].approvalRequest.what);

    await show("evaluation?skill=release-notes");
    await page.locator(".eval").waitFor();
    const reports = readdirSync(join(home, ".skillet/evals"))
      .filter((name) => name.endsWith(".json"))
      .sort()
      .map((name): EvalReport => JSON.parse(readFileSync(join(home, ".skillet/evals", name), "utf8")));
    expect(reports.at(-1)).toEqual(evaluated);
    const past = reports.flatMap((report) =>
      report.skills.flatMap((one) => (one.name === "release-notes" ? [{ report, one }] : [])),
    );
    const rowsOf = (title: string) =>
      page
        .locator("figure", { hasText: title })
        .locator("tbody tr")
        .evaluateAll((rows) => rows.map((one) => one.textContent));
    const percent = (share: number | null | undefined) => `${Math.round((share ?? 0) * 100)} %`;
    const points = (share: number) => `${share > 0 ? "+" : share < 0 ? "−" : ""}${Math.abs(Math.round(share * 100))}`;
    const matching = past.filter(({ report }) => report.level === "route");
    const tasks = past.filter(({ report }) => report.level === "task");
    const day = ({ at }: EvalReport) => at.slice(5, 10);
    expect(await rowsOf("Matching, without a model")).toEqual(
      matching.map(({ report, one }) => `${day(report)}${one.rates.map(({ rate }) => percent(rate)).join("")}`),
    );
    expect(await rowsOf("Passed, by arm")).toEqual(
      tasks.map(({ report, one }) => `${day(report)}${one.rates.map(({ rate }) => percent(rate)).join("")}`),
    );
    expect(await rowsOf("Difference to the baseline")).toEqual(
      tasks.map(({ report, one }) => {
        const [{ difference, low, high } = { difference: 0, low: 0, high: 0 }] = one.comparisons;
        return `${day(report)}${points(difference)}, ${points(low)} to ${points(high)}`;
      }),
    );
    expect(await rowsOf("Cost of an evaluation")).toEqual(
      tasks.map(({ report }) => `${day(report)}$${Number(report.spent?.dollars?.toPrecision(3))}`),
    );
    expect(tasks).toHaveLength(4);
    // Each stored evaluation, opened from the list.
    for (const { report, one } of past) {
      await show(`evaluation?skill=release-notes&report=${report.id}`);
      await page.locator(".eval").waitFor();
      const text = (await page.locator(".eval").textContent()) ?? "";
      for (const { name, rate, low, high, successes, total } of one.rates)
        expect(text).toContain(`${name} ${successes}/${total}${percent(rate)}${percent(low)} to ${percent(high)}`);
      for (const { verdict, arm, baseline, difference, low, high, pairs, gained, lost, pValue } of one.comparisons) {
        expect(text).toContain(`${verdict} ${arm} against ${baseline}`);
        expect(text).toContain(`${points(difference)} points${points(low)} to ${points(high)}`);
        expect(text).toContain(`${pairs} pairs: ${gained} gained, ${lost} lost, p = ${Number(pValue.toPrecision(2))}`);
      }
      expect(await page.locator(".cases tbody tr").evaluateAll((all) => all.map((row) => row.textContent))).toEqual(
        one.cases.map(({ name, arms, failures }) =>
          [name, failures[0] ?? "", ...Object.values(arms).map(({ passed, trials }) => `${passed}/${trials}`)].join(""),
        ),
      );
      const arms = ["none", "skill"].map((arm) => one.cases.flatMap((found) => found.arms[arm] ?? []));
      const formatSums = (of: (totals: ArmTotals) => number, format: (sum: number) => string) =>
        arms.map((all) => format(all.reduce((sum, totals) => sum + of(totals), 0))).join("");
      if (one.cases.length > 0)
        expect(await page.locator(".cases tfoot tr").allTextContents()).toEqual([
          `All cases${arms.map((all) => `${sumOf(all, "passed")}/${sumOf(all, "trials")}`).join("")}`,
          `Tokens${formatSums(({ inputTokens, outputTokens }) => inputTokens + outputTokens, number)}`,
          `Cost${formatSums(({ dollars }) => dollars ?? Number.NaN, formatCost)}`,
          `Time${formatSums(({ ms }) => ms, formatDuration)}`,
        ]);
      for (const { query } of one.misses) expect(text).toContain(query);
      const { spent } = report;
      if (spent)
        expect(await page.locator("section", { has: page.locator(".eval") }).textContent()).toContain(
          `${number(spent.calls)} model calls, ${number(spent.inputTokens + spent.outputTokens)} tokens · ${formatCost(spent.dollars ?? Number.NaN)}`,
        );
    }

    await show("health");
    await expect
      .poll(() => page.locator(".summary").textContent(), PATIENCE)
      .toContain(`${number(stats.total.runs)} runs`);
    expect(await page.locator("table.data tbody tr").count()).toBe(stats.skills.length);
    const runsPerDay = page.locator("figure", { hasText: "Runs per day" }).locator("tbody tr");
    expect(await runsPerDay.count()).toBe(stats.days.length);
    expect(await runsPerDay.first().locator("td").allTextContents()).toEqual([
      String(stats.days[0].runs),
      String(stats.days[0].succeeded),
    ]);
    await page.locator(".columns").waitFor();
    const doctor = await printed("doctor");
    expect((await page.locator(".facts").allTextContents()).join()).toContain(
      `Node${doctor.node} on ${doctor.platform}`,
    );
  }, 120_000);

  it("[V-05] updates a row when its SKILL.md is edited, and adds one for a new skill", async () => {
    const here = createHome(GREETER);
    const { page } = await openPage(here.run);
    await page.locator(".row", { hasText: "greeter" }).waitFor();
    const added = join(here.home, ".skillet/skills/late");
    // The watchers start after the page: an edit before that is found too.
    writeFiles(here.home, {
      ".skillet/skills/greeter/SKILL.md": skillText("greeter", { description: "Waves at people. Use when asked." }),
    });
    await page.locator(".row", { hasText: "Waves at people" }).waitFor();
    mkdirSync(added);
    writeFileSync(join(added, "SKILL.md"), skillText("late"));
    await page.locator(".row", { hasText: "late" }).waitFor();
  }, 60_000);

  it("[V-05] follows a run while it works", async () => {
    const server = await startModelServer("openai", [
      () => [{ tool: "read_file", input: { path: "README.md" } }],
      () => ({ hangs: true }),
    ]);
    const here = createHome(GREETER, modelConfig("openai", server));
    const { page } = await openPage(here.run);
    await page.getByRole("link", { name: "Runs", exact: true }).click();
    await page.getByText("There are no runs yet.").waitFor();
    const running = here.run(["run", "greeter", "read it"]);
    await page.locator(".row a", { hasText: "greeter" }).click();
    await page.locator(".entry", { hasText: "read_file" }).waitFor();
    await page.locator(".now").waitFor();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await running;
    await page.locator(".facts", { hasText: "cancelled" }).waitFor();
    expect(await page.locator(".now").count()).toBe(0);
  }, 60_000);

  it("[V-06] approving continues the run that a terminal waits for, and the terminal shows it", async () => {
    const server = await startModelServer("openai", [writes, () => "Done."]);
    const here = createHome(GREETER, modelConfig("openai", server));
    const { page } = await openPage(here.run);
    const asking = openTerminal(["run", "greeter", "'write it'"], { home: here.home, cwd: here.project });
    await asking.sees("yes, for this run");
    await page.getByRole("link", { name: "Approvals 1 waiting" }).click();
    await page.locator(".request").waitFor();
    expect(await page.locator(".request .diff").textContent()).toContain("+written");
    await page.getByRole("button", { name: "Approve for this run" }).click();
    await asking.sees("approved for this run in another process");
    expect(await asking.ended).toBe(0);
    expect(readFileSync(join(here.project, "out.txt"), "utf8")).toBe("written\n");
    await page.getByText("Nothing waits for you.").waitFor();
  }, 60_000);

  it("[V-06] answers by keyboard: once, for the run, or denied with a reason", async () => {
    const here = createHome(GREETER);
    const ids = ["20261101-000000-0000000a", "20261101-000000-0000000b", "20261101-000000-0000000c"];
    for (const id of ids) await recordRun(here, id, "mailer.send");
    const { page, url } = await openPage(here.run);
    await page.goto(`${url}approvals`);
    await expect.poll(() => page.locator(".request").count(), PATIENCE).toBe(3);
    const linesOf = async (id: string) =>
      JSON.parse((await here.run(["runs", "show", id, "--json"])).stdout).lines as { type: string }[];
    const answered = async (keys: readonly string[]) => {
      const waiting = await page.locator(".request").count();
      const text = (await page.locator(".request").first().textContent()) ?? "";
      const id = ids.find((one) => text.includes(one.slice(-8))) ?? "";
      await page.keyboard.press("ArrowDown");
      for (const key of keys)
        await (key.length > 1 && key !== "Enter" ? page.keyboard.type(key) : page.keyboard.press(key));
      await expect.poll(() => page.locator(".request").count(), PATIENCE).toBe(waiting - 1);
      return (await linesOf(id)).find(({ type }) => type === "answer");
    };
    expect(await answered(["y"])).toMatchObject({ isApproved: true });
    expect(await answered(["r"])).toMatchObject({ isApproved: true, scope: "run" });
    expect(await answered(["n", "ask Ann first", "Enter"])).toMatchObject({
      isApproved: false,
      reason: "ask Ann first",
    });
    await page.getByText("Nothing waits for you.").waitFor();
  }, 90_000);

  it("[V-06] shows held changes as a diff, and applies exactly those", async () => {
    const here = createHome({ ...GREETER, "project/.vscode/settings.json": '{ "a": 1 }\n' });
    const skilletHome = join(here.home, ".skillet");
    const hold = (text: string) => {
      const folder = createHeldFolder(skilletHome);
      const { name, path } = folder.next();
      writeFileSync(path, text);
      return folder.save({
        ...{ workspace: here.project, at: "2026-11-19T10:00:00.000Z", skill: "greeter" },
        changes: [
          {
            ...{ path: ".vscode/settings.json", raw: ".vscode/settings.json", change: "changed", group: "editor" },
            ...{ diff: `-{ "a": 1 }\n+${text.trim()}`, stored: name, digest: digestPath(folder.root, name) },
            current: digestCurrent(here.project, ".vscode/settings.json"),
          },
        ],
      });
    };
    hold('{ "a": 2 }\n');
    const { page, url } = await openPage(here.run);
    await page.goto(`${url}approvals`);
    await page.locator(".request").waitFor();
    expect(await page.locator(".request .diff").textContent()).toBe('-{ "a": 1 }+{ "a": 2 }');
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("Nothing waits for you.").waitFor();
    const read = () => readFileSync(join(here.project, ".vscode/settings.json"), "utf8");
    expect(read()).toBe('{ "a": 2 }\n');
    hold('{ "a": 3 }\n');
    await page.getByRole("button", { name: "Remove" }).click();
    await page.getByText("Nothing waits for you.").waitFor();
    expect(read()).toBe('{ "a": 2 }\n');
    expect(JSON.parse((await here.run(["approve", "--json"])).stdout).held).toEqual([]);
  }, 90_000);

  it("[V-05] resumes an interrupted run, and shows its end", async () => {
    const server = await startModelServer("openai", [() => "Hello again."]);
    const here = createHome(GREETER, modelConfig("openai", server));
    const id = "20261101-000000-0000000d";
    await recordRun(here, id);
    const { page, url } = await openPage(here.run);
    await page.goto(`${url}runs/${id}`);
    await page.locator(".facts", { hasText: "interrupted" }).waitFor();
    await page.getByRole("button", { name: "Resume", exact: true }).click();
    await page.locator("section", { hasText: "Result" }).getByText("Hello again.").last().waitFor();
    await page.locator(".facts", { hasText: "done" }).waitFor();
    expect(await page.getByRole("button", { name: "Resume", exact: true }).count()).toBe(0);
    expect(JSON.parse((await here.run(["runs", "--json"])).stdout).runs).toMatchObject([{ id, state: "ended" }]);
  }, 60_000);

  it("[V-02] tests the sandbox as `doctor --sandbox` does", async () => {
    const { run } = createHome(GREETER);
    const { page, url } = await openPage(run);
    await page.goto(`${url}health`);
    const answer = page.waitForResponse((response) => response.url().endsWith("/api/sandbox"));
    await page.getByRole("button", { name: "Test the sandbox" }).click();
    const tested = await (await answer).json();
    const printed = JSON.parse((await run(["doctor", "--sandbox", "--json"])).stdout);
    const section = page.locator("section", { hasText: "tries every guarantee" });
    await section.getByRole("button", { name: "Test again" }).waitFor();
    if (printed.error) return expect(await section.textContent()).toContain(printed.error.message);
    // A busy machine may fail a probe in one of the two: the guarantees are the same.
    const idsOf = ({ probes }: { probes: { id: string; name: string }[] }) => probes.map(({ id, name }) => [id, name]);
    expect(idsOf(tested)).toEqual(idsOf(printed));
    expect(await section.locator(".answer").textContent()).toContain(`${tested.held} of ${printed.of} guarantees hold`);
    expect(await section.locator(".probes li").count()).toBe(printed.probes.length);
  }, 120_000);

  it("[V-04] offers no answer when it is read-only", async () => {
    const { run } = await exampleRun();
    const { page, url } = await openPage(run, { args: ["--read-only"] });
    await page.goto(`${url}approvals`);
    await page.locator(".request").waitFor();
    expect(
      await page
        .locator("main")
        .getByRole("button", { name: /^(?:approve|deny)/i })
        .count(),
    ).toBe(0);
    await page.locator(".request").focus();
    await page.keyboard.press("y");
    expect(JSON.parse((await run(["approve", "--json"])).stdout).waiting).toHaveLength(1);
  }, 60_000);

  it("[V-03] keeps hostile text of skills as text", async () => {
    const body = [
      "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>",
      "[click](javascript:document.title='owned') [data](data:text/html,<script>1</script>) ![pixel](https://attacker.example/p.png)",
      '<a href="https://attacker.example" onclick="alert(1)">x</a><svg onload=alert(1)><math><style>*{display:none}</style>',
    ].join("\n\n");
    const here = createHome({
      "home/.skillet/skills/hostile/SKILL.md": `---\nname: hostile\ndescription: "<img src=x onerror=alert(1)> reversed. Use when asked."\n---\n\n${body}\n`,
      "home/.skillet/skills/hostile/<b>bold.md": "<script>document.title='owned'</script>\u001b[31mred \u202eevil",
      "home/.skillet/skills/long/SKILL.md": skillText("long", {
        description: `Use it. ${"<b>x</b> ".repeat(120_000)}`,
        body,
      }),
    });
    const texts = saveHostileReports(here.home);
    const { page, url } = await openPage(here.run);
    await page.goto(`${url}skills/hostile`);
    await page.locator(".prose").waitFor();
    expect(
      await page
        .locator("main")
        .locator("img, script, svg, math, style, iframe, [onerror], [onclick], [onload]")
        .count(),
    ).toBe(0);
    expect(
      await page.locator(".prose a").evaluateAll((links) => links.map((link) => link.getAttribute("href"))),
    ).toEqual(["https://attacker.example/p.png"]); // The image, as a link: nothing is requested.
    await page.locator(".files button").click();
    await page.locator(".files pre").waitFor();
    const text = (await page.locator("main").textContent()) ?? "";
    expect(text).toContain("<img src=x onerror=");
    expect(text).toContain("</script>\\u{1b}[31mred \\u{202e}evil");
    expect(text).not.toMatch(/[\u001b\u202e]/);
    for (const view of ["", "skills?view=problems", "explain?q=hostile", "health", "evaluation"]) {
      await page.goto(`${url}${view}`);
      await page.locator(".page-head h1").waitFor();
      await page.locator(".loading").waitFor({ state: "detached" });
    }
    await page.locator(".filters select").first().selectOption({ index: 1 });
    await page.locator(".chart canvas").last().waitFor();
    await page.locator("summary").click();
    const evaluation = page.locator("main");
    expect(await evaluation.locator("img, script, svg, math, iframe, [onerror], [onload]").count()).toBe(0);
    const shown = (await evaluation.textContent()) ?? "";
    for (const one of texts) expect(shown).toContain(one);
    expect(shown).toContain("large ".repeat(150_000).trim());
    expect(shown).not.toMatch(/[\u001b\u202e]/);
    const links = await evaluation
      .locator("a")
      .evaluateAll((all) => all.map((link) => link.getAttribute("href") ?? ""));
    expect(links.filter((href) => !/^\/(?:skills\/|evaluation\?)/.test(href))).toEqual([]);
    const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
    expect(await page.evaluate<number>(sideways)).toBeLessThanOrEqual(0);
    expect(await page.title()).not.toContain("owned");
  }, 90_000);

  it("[V-07] renders only the rows on the screen of thousands of skills, wherever it is scrolled", async () => {
    const count = IS_LONG ? 10_000 : 2000;
    const files = Object.fromEntries(
      Array.from({ length: count }, (_, at) => {
        const name = `skill-${String(at).padStart(5, "0")}`;
        return [`home/.skillet/skills/${name}/SKILL.md`, skillText(name)];
      }),
    );
    const { page } = await openPage(createHome(files).run);
    await page.locator(".row").first().waitFor();
    const shown = () => page.locator(".row").count();
    expect(await shown()).toBeLessThan(60);
    expect(await page.locator(".rows").getAttribute("aria-rowcount")).not.toBe("");
    for (const part of [0.5, 1, 0.25]) {
      await page.evaluate(`scrollTo(0, document.body.scrollHeight * ${part})`);
      const at = Math.round(count * part);
      await waitFor(async () => {
        const indexes = await page
          .locator(".row")
          .evaluateAll((rows) => rows.map((row) => Number(row.getAttribute("data-row"))));
        expect(indexes.length).toBeGreaterThan(5);
        expect(indexes.length).toBeLessThan(60);
        expect(Math.abs((indexes[0] ?? 0) - at)).toBeLessThan(0.05 * count);
      });
    }
    await page.locator("[type=search]").fill("skill-01777");
    await expect.poll(shown, PATIENCE).toBe(1);
  }, 180_000);

  it("[V-09] works with the keyboard alone", async () => {
    const { run } = await exampleRun();
    const { page } = await openPage(run);
    await page.locator(".row").first().waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("release writes");
    await expect.poll(() => page.locator(".row").count(), PATIENCE).toBe(2);
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    expect(await page.evaluate("document.activeElement.textContent")).toBe("test-plan");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "release-notes" }).waitFor();
    await page.keyboard.press("4");
    await page.locator(".request").waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("n");
    await page.keyboard.type("ask Ann first");
    await page.keyboard.press("Enter");
    await waitFor(async () => expect(JSON.parse((await run(["approve", "--json"])).stdout).waiting).toEqual([]));
    const { runs } = JSON.parse((await run(["runs", "--json"])).stdout);
    expect((await run(["runs", "show", runs[0].id])).stdout).toContain("ask Ann first");
  }, 90_000);

  const looks = [
    ["light", 1280],
    ["dark", 1280],
    ["light", 360],
    ["dark", 360],
  ] as const;
  it.each(sampleRows(looks, 2))(
    "[V-09] has no serious finding of axe-core and no sideways scrolling, %s at %i px",
    async (colorScheme, width) => {
      const { run } = await exampleRun();
      const { page, url } = await openPage(run, { colorScheme, viewport: { width, height: 800 } });
      await page.locator(".row").first().waitFor();
      const paper = await page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
      const [red = 0] = /\d+/.exec(paper)?.map(Number) ?? [];
      if (colorScheme === "dark") expect(red).toBeLessThan(60);
      else expect(red).toBeGreaterThan(220);
      const { runs } = JSON.parse((await run(["runs", "--json"])).stdout);
      for (const view of [
        ...VIEWS,
        "skills/release-notes",
        "explain?q=release%20notes&skill=sql-review&tier=registry",
        "evaluation?skill=release-notes&level=task",
        `runs/${runs[1].id}`,
        "nowhere",
      ]) {
        await page.goto(`${url}${view}`);
        await page.locator(".page-head h1").waitFor();
        await page.locator(".loading").waitFor({ state: "detached" });
        const sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        expect(await page.evaluate<number>(sideways), view).toBeLessThanOrEqual(0);
        await page.evaluate(AXE);
        const { violations } = await page.evaluate<AxeResults>("axe.run()");
        const findings = violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
        expect(findings, view).toEqual([]);
      }
    },
    180_000,
  );

  it("[V-01] shows the next command to a browser without a session", async () => {
    const studio = await startStudio(createHome(GREETER).run);
    const page = await (await browser.newContext()).newPage();
    onTestFinished(() => page.context().close());
    await page.goto(studio.url);
    await page.getByText("This page has no session").waitFor();
    expect(await page.locator(".command code").textContent()).toBe("skillet studio");
    // Only the fragment differs: the page opens the session without a new request for it.
    await page.goto(studio.link);
    await page.locator(".row").first().waitFor();
    expect(await page.evaluate("location.hash")).toBe("");
  }, 60_000);
});

/** Stores two evaluations that consist of hostile text. Returns the texts as the page shows them. */
function saveHostileReports(home: string): string[] {
  const names = ["skill", "model", "rate", "arm", "baseline", "case", "failure", "warning", "query", "first"];
  const hostile = (name: string) =>
    `${name} <img src=x onerror="document.title='owned'"> javascript:alert(1) \u001b[31mred \u202eevil`;
  const rate = computeRate(1, 2);
  const totals = { passed: 1, trials: 2, inputTokens: 3, outputTokens: 4, dollars: 0.5, ms: 6 };
  for (const hour of [1, 2]) {
    const details = { model: hostile("model"), spent: { calls: 1, inputTokens: 1, outputTokens: 1, dollars: 1 } };
    const report = createEvalReport("task", details, new Date(Date.UTC(2026, 10, 19, hour)));
    report.skills = [
      createSkillReport(hostile("skill"), {
        rates: [{ name: hostile("rate"), ...rate }],
        comparisons: [
          { baseline: hostile("baseline"), arm: hostile("arm"), ...comparePairs([{ baseline: false, arm: true }]) },
        ],
        cases: [{ name: hostile("case"), arms: { [hostile("arm")]: totals }, failures: [hostile("failure")] }],
        warnings: [hostile("warning"), "large ".repeat(150_000)],
        misses: [{ query: hostile("query"), shouldTrigger: true, rank: 2, takenBy: hostile("first") }],
      }),
    ];
    saveEvalReport(join(home, ".skillet"), report);
  }
  return names.map((name) => hostile(name).replace("\u001b", "\\u{1b}").replace("\u202e", "\\u{202e}"));
}
