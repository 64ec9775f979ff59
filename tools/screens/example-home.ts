import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createEvalReport, createSkillReport, type EvalReport, saveEvalReport } from "../../src/eval/eval-report.ts";
import { comparePairs, computeRate } from "../../src/eval/pair-statistics.ts";
import type { RunEvent, StopReason } from "../../src/host/events.ts";
import { formatJournalLine, type JournalLine, parseJournal } from "../../src/store/journal.ts";
import { createRunStore } from "../../src/store/runs.ts";
import { createStatisticsStore } from "../../src/store/statistics.ts";

/** A home and a project with skills, recorded runs, statistics and evaluations, for the screens of the page. */
export interface ExampleHome {
  home: string;
  project: string;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

const SKILLS: readonly { name: string; description: string; more?: string; body?: string; place?: string }[] = [
  {
    name: "release-notes",
    description: "Writes release notes from merged changes. Use when the user asks for a changelog or release notes.",
    more: "version: 2.1.0\ntags: [writing, git]\ntriggers: { keywords: [release notes, changelog], negative: [privacy notes] }\n",
    body: "# Release notes\n\nCollect the merged changes since the last tag, then group them.\n\n1. Read `CHANGELOG.md` for the style of earlier notes.\n2. List the merged changes: `git log --merges --oneline`.\n3. Write **one line per change**, for users, not for developers.\n\n| group | content |\n|---|---|\n| Added | new behavior |\n| Fixed | bugs, with the symptom first |\n\n> Leave out refactoring.\n\nSee [the guide](https://keepachangelog.com) for the form.\n",
  },
  {
    name: "invoice-check",
    description: "Compares invoices with orders and lists differences. Use when invoices need checking.",
    more: "triggers: { keywords: [invoice, order] }\n",
  },
  {
    name: "meeting-minutes",
    description: "Turns a transcript into minutes with decisions and owners. Use after a meeting.",
  },
  {
    name: "sql-review",
    description: "Reviews SQL for slow queries and unsafe migrations. Use before a migration is merged.",
    more: "triggers: { keywords: [migration, sql] }\n",
  },
  {
    name: "translate-docs",
    description: "Translates documentation and keeps code and links unchanged. Use when a page needs another language.",
  },
  {
    name: "incident-report",
    description: "Writes an incident report from logs and chat messages. Use after an outage.",
  },
  { name: "brand-voice", description: "Rewrites text in the voice of the company. Use when text goes to customers." },
  {
    name: "api-design",
    description: "Reviews HTTP APIs for naming, errors and versions. Use when endpoints are added or changed.",
    place: "home/work/shop/.claude/skills",
  },
  {
    name: "test-plan",
    description: "Writes a test plan for a change, with risks first. Use before a release.",
    place: "home/work/shop/skills",
  },
  {
    name: "sql-review",
    description: "Reviews SQL of this repository, with its own rules. Use before a migration is merged.",
    place: "home/work/shop/skills",
  },
];

/** Creates the example below a folder. Times are relative to now, so that ages look the same whenever it is created. */
export async function createExampleHome(root: string, now = Date.now()): Promise<ExampleHome> {
  const [home, project] = [join(root, "home"), join(root, "home/work/shop")];
  const write = (path: string, text: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  };
  for (const { name, description, more = "", body = `Do it step by step.\n`, place = "home/.skillet/skills" } of SKILLS)
    write(`${place}/${name}/SKILL.md`, `---\nname: ${name}\ndescription: ${description}\n${more}---\n\n${body}`);
  write("home/.skillet/skills/release-notes/templates/notes.md", "# Version\n\n## Added\n\n## Fixed\n");
  write("home/.skillet/skills/release-notes/scripts/collect.sh", "#!/bin/sh\ngit log --merges --oneline\n");
  write("home/work/shop/skills/on-call/SKILL.md", "---\nname: on-call\n---\n\nNobody described this skill.\n");
  write("home/work/shop/.git/HEAD", "ref: refs/heads/main\n");
  await recordRuns(home, project, now);
  await recordStatistics(home, now);
  recordEvaluations(home, now);
  return { home, project };
}

const USAGE = { inputTokens: 5210, outputTokens: 640, cachedTokens: 0 };
const MODEL = "anthropic/claude-sonnet-5";

interface RecordedRun {
  id: string;
  skill: string;
  task: string;
  /** Minutes ago. */
  age: number;
  calls: readonly { tool: string; input: unknown; output: string; ms: number }[];
  stop?: StopReason;
  content?: string;
  /** The request that it waits for. */
  asks?: { tool: string; what: string; where: string; input: unknown };
}

const RUNS: readonly RecordedRun[] = [
  {
    ...{ id: "3f2a91c0", skill: "release-notes", task: "Write the notes for 2.4", age: 4 },
    calls: [
      {
        tool: "bash",
        input: { command: "git log --merges --oneline v2.3..main" },
        output: "a81f3c0 Merge: export invoices as CSV\n77d0e12 Merge: keep the filter after a reload",
        ms: 41,
      },
      {
        tool: "read_file",
        input: { path: "CHANGELOG.md" },
        output: "# Changelog\n\n## 2.3\n\n- Invoices can be filtered by customer.",
        ms: 12,
      },
    ],
    asks: {
      ...{ tool: "edit_file", what: "edit CHANGELOG.md", where: "the workspace" },
      input: {
        path: "CHANGELOG.md",
        old: "# Changelog\n\n## 2.3\n",
        new: "# Changelog\n\n## 2.4\n\n- Invoices can be exported as CSV.\n- The filter is kept after a reload.\n\n## 2.3\n",
      },
    },
  },
  {
    ...{
      id: "b5518e27",
      skill: "incident-report",
      task: "Report on last night’s outage",
      age: 47,
      stop: "answer",
      content: "The report is in docs/incidents/2026-11-18.md.",
    },
    calls: [{ tool: "read_file", input: { path: "logs/api.log" }, output: "02:14 connection pool exhausted", ms: 30 }],
  },
  { ...{ id: "90cc41d8", skill: "sql-review", task: "Review migration 0042", age: 190, stop: "timeout" }, calls: [] },
  {
    ...{
      id: "17ab03fe",
      skill: "meeting-minutes",
      task: "Minutes of the planning meeting",
      age: 1500,
      stop: "answer",
      content: "Three decisions, two owners.",
    },
    calls: [{ tool: "read_file", input: { path: "notes/planning.txt" }, output: "We ship on Friday.", ms: 9 }],
  },
];

async function recordRuns(home: string, project: string, now: number): Promise<void> {
  const runs = createRunStore(join(home, ".skillet"));
  // The newest last: a journal begins when it is created.
  for (const { id: end, skill, task, age, calls, stop, content = "", asks } of RUNS.toReversed()) {
    const time = new Date(now - age * MINUTE).toISOString().replace(/\D/g, "");
    const id = `${time.slice(0, 8)}-${time.slice(8, 14)}-${end}`;
    const journal = await runs.create({
      head: { id, kind: "use", skill, task, workspace: project, caller: { chatType: "private", chatId: "terminal" } },
      request: { skill, message: task },
    });
    let at = Date.now();
    const event = (details: object, ms: number) => {
      at += ms;
      return journal.event({ run: id, skill, at: new Date(at).toISOString(), ...details } as RunEvent);
    };
    await event(
      {
        type: "run-started",
        source: "user",
        model: MODEL,
        tools: [],
        depth: 1,
        limits: { iterations: 10, seconds: 600 },
      },
      20,
    );
    for (const [index, { tool, input, output, ms }] of calls.entries()) {
      const step = index + 1;
      await event({ type: "step-ended", step, ms: 2100, usage: USAGE, cost: 0.021, calls: 1 }, 2100);
      await journal.step(`model:${step}`, { text: "" });
      await event({ type: "tool-called", step, tool, input }, 4);
      await event({ type: "tool-ended", step, tool, isError: false, ms, characters: output.length }, ms);
      await journal.step(`tool:${step}.1`, { text: output });
    }
    if (asks) {
      const { tool, what, where, input } = asks;
      const effect = {
        ...{
          run: id,
          skill,
          source: "user",
          location: join(home, ".skillet/skills", skill),
          tool,
          input,
          on: "workspace" as const,
        },
        ...{ what, where, reason: "it changes a file", amount: "24 characters become 105" },
      };
      await event({ type: "approval-requested", step: calls.length + 1, tool, effect }, 1800);
      await journal.ask(`approval:${calls.length + 1}.1`, effect);
    } else {
      const isError = stop !== "answer";
      const tail = {
        stop: stop ?? "answer",
        isError,
        iterations: calls.length + 1,
        ms: 8400,
        usage: USAGE,
        cost: 0.06,
        model: MODEL,
      };
      await event({ type: "run-ended", ...tail }, 1200);
      await journal.end({ content }, tail);
    }
    await journal.close();
    shiftTimes(join(home, ".skillet/runs", `${id}.jsonl`), age * MINUTE);
  }
}

/** Moves the times of a journal into the past. */
function shiftTimes(file: string, ms: number): void {
  const shift = (time: string) => new Date(Date.parse(time) - ms).toISOString();
  const { lines } = parseJournal(readFileSync(file));
  const moved = JSON.parse(JSON.stringify(lines).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, shift)) as JournalLine[];
  writeFileSync(file, moved.map(formatJournalLine).join(""));
}

/** Runs of each of the last days, with a fixed pattern. */
async function recordStatistics(home: string, now: number): Promise<void> {
  const statistics = createStatisticsStore(join(home, ".skillet"));
  const names = ["release-notes", "sql-review", "incident-report", "meeting-minutes"];
  for (let day = 20; day >= 0; day--) {
    const runs = 2 + ((day * 7) % 6);
    for (let run = 0; run < runs; run++) {
      const isError = (day + run * 3) % 7 === 0;
      const event = {
        ...{ type: "run-ended" as const, run: `${day}-${run}`, skill: names[(day + run) % names.length] ?? "" },
        ...{
          at: new Date(now - day * DAY - run * MINUTE).toISOString(),
          stop: isError ? ("error" as const) : ("answer" as const),
        },
        ...{
          isError,
          iterations: 3,
          ms: 4000 + ((day * 13 + run * 29) % 17) * 900,
          usage: USAGE,
          cost: 0.02 + (run % 3) * 0.015,
        },
      };
      await statistics.record(event);
    }
  }
}

function recordEvaluations(home: string, now: number): void {
  for (const [index, found] of [14, 17, 19, 22].entries()) {
    const at = new Date(now - (4 - index) * 3 * DAY);
    const rates = (recall: number, wrong: number) => [
      { name: "recall@1", ...computeRate(recall - 3, 24) },
      { name: "recall@3", ...computeRate(recall, 24) },
      { name: "false triggers", ...computeRate(wrong, 20) },
    ];
    const report = createEvalReport("route", { ms: 900 }, at);
    report.skills = [
      createSkillReport("release-notes", {
        rates: rates(found, 3 - Math.min(index, 2)),
        misses: [{ query: "what changed since spring?", shouldTrigger: true, rank: 4, takenBy: "meeting-minutes" }],
      }),
      createSkillReport("sql-review", { rates: rates(found - 2, 1) }),
    ];
    saveEvalReport(join(home, ".skillet"), report);
  }
  for (const [index, found] of [13, 16, 19].entries())
    saveEvalReport(
      join(home, ".skillet"),
      createTaskReport(found, new Date(now - (2 - index) * 4 * DAY - 90 * MINUTE)),
    );
}

/** Trials of each case and arm, and those that pass without the skill. */
const CASES = [
  { name: "notes for a minor version", without: 3 },
  { name: "a change that breaks an API", without: 4 },
  { name: "nothing was merged", without: 2 },
] as const;
const TRIALS = 8;

/** Tasks that are done without the skill, and with it: `passed` of all trials. */
function createTaskReport(passed: number, at: Date): EvalReport {
  const trials = CASES.length * TRIALS;
  const without = CASES.reduce((sum, one) => sum + one.without, 0);
  const totals = (count: number, tokens: number) => ({
    ...{ passed: count, trials: TRIALS, inputTokens: TRIALS * tokens, outputTokens: TRIALS * 420 },
    ...{ dollars: TRIALS * tokens * 0.000004, ms: TRIALS * 9200 },
  });
  const spent = {
    calls: trials * 4,
    inputTokens: trials * 5000,
    outputTokens: trials * 840,
    dollars: trials * 0.02,
    ceiling: 2,
  };
  const report = createEvalReport("task", { ms: 184_000, model: MODEL, spent }, at);
  const pairs = Array.from({ length: trials }, (_, index) => ({ baseline: index < without, arm: index < passed }));
  report.skills = [
    createSkillReport("release-notes", {
      rates: [
        { name: "none", ...computeRate(without, trials) },
        { name: "skill", ...computeRate(passed, trials) },
      ],
      comparisons: [{ baseline: "none", arm: "skill", ...comparePairs(pairs) }],
      cases: CASES.map(({ name, without: count }, index) => ({
        ...{
          name,
          arms: { none: totals(count, 2100), skill: totals(Math.floor((passed + 2 - index) / 3), 2900) },
        },
        failures: index === 1 ? ['NOTES.md has no heading "Breaking changes"'] : [],
      })),
    }),
  ];
  return report;
}
